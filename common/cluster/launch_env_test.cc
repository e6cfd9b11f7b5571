// Tests what launch_env() reads from the environment variables of different launchers.
#include "common/cluster/launch_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace loch::cluster {
namespace {

class LaunchEnvTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
          "SLURM_NTASKS_PER_NODE", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri",
          "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_RANK", "PMI_SIZE",
          "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "PMI_ID", "PMI_KVSNAME", "PMI_JOBID"}) {
      unsetenv(name);
    }
  }
  void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(LaunchEnvTest, AloneIsOneRank) {
  const auto env = launch_env();
  ASSERT_TRUE(env.has_value());
  EXPECT_EQ(env->rank, 0u);
  EXPECT_EQ(env->ranks, 1u);
  EXPECT_EQ(env->launcher, "none");
  EXPECT_FALSE(env->job.empty());
}

TEST_F(LaunchEnvTest, SaysHowManyRanksShareThisMachineIfTheLauncherDoes) {
  set("OMPI_COMM_WORLD_RANK", "2");
  set("OMPI_COMM_WORLD_SIZE", "3");
  EXPECT_EQ(launch_env()->ranks_here, 0u);
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  EXPECT_EQ(launch_env()->ranks_here, 1u);
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
  EXPECT_EQ(launch_env()->ranks_here, 3u);
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "many");
  EXPECT_FALSE(launch_env().has_value());
}

TEST_F(LaunchEnvTest, ReadsMpirun) {
  set("OMPI_COMM_WORLD_RANK", "2");
  set("OMPI_COMM_WORLD_SIZE", "3");
  set("PMIX_NAMESPACE", "prterun-host.domain-123@1");
  const auto env = launch_env();
  ASSERT_TRUE(env.has_value()) << env.error().message;
  EXPECT_EQ(env->rank, 2u);
  EXPECT_EQ(env->ranks, 3u);
  EXPECT_EQ(env->launcher, "mpirun");
  EXPECT_THAT(env->job, testing::HasSubstr("prterun-host_domain-123_1"));
  EXPECT_EQ(env->job.find_first_of("./@ "), std::string::npos);
}

TEST_F(LaunchEnvTest, ReadsSrunStepByStep) {
  set("SLURM_PROCID", "0");
  set("SLURM_NTASKS", "4");
  set("SLURM_JOB_ID", "77");
  set("SLURM_STEP_ID", "1");
  const auto first = launch_env();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->ranks, 4u);
  set("SLURM_STEP_ID", "2");
  EXPECT_NE(launch_env()->job, first->job);
}

TEST_F(LaunchEnvTest, AShellInAnAllocationIsNoTask) {
  set("SLURM_NTASKS", "4");
  const auto env = launch_env();
  ASSERT_TRUE(env.has_value());
  EXPECT_EQ(env->ranks, 1u);
}

TEST_F(LaunchEnvTest, ReadsPmi) {
  set("PMI_RANK", "1");
  set("PMI_SIZE", "2");
  const auto env = launch_env();
  ASSERT_TRUE(env.has_value());
  EXPECT_EQ(env->rank, 1u);
  EXPECT_EQ(env->launcher, "pmi");
  EXPECT_EQ(env->ranks_here, 0u);
  set("MPI_LOCALNRANKS", "2");
  set("MPI_LOCALRANKID", "1");
  const auto local = launch_env();
  ASSERT_TRUE(local.has_value());
  EXPECT_EQ(local->ranks_here, 2u);
  EXPECT_EQ(local->rank_here, 1u);
}

TEST_F(LaunchEnvTest, RefusesNonsenseByName) {
  set("OMPI_COMM_WORLD_RANK", "two");
  set("OMPI_COMM_WORLD_SIZE", "3");
  auto env = launch_env();
  ASSERT_FALSE(env.has_value());
  EXPECT_THAT(env.error().message, testing::HasSubstr("OMPI_COMM_WORLD_RANK"));
  set("OMPI_COMM_WORLD_RANK", "3");  // a rank beyond the last one
  EXPECT_FALSE(launch_env().has_value());
  unsetenv("OMPI_COMM_WORLD_SIZE");
  env = launch_env();
  ASSERT_FALSE(env.has_value());
  EXPECT_THAT(env.error().message, testing::HasSubstr("OMPI_COMM_WORLD_SIZE"));
}

}  // namespace
}  // namespace loch::cluster
