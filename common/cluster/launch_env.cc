// Reads rank, number of ranks and job name from the environment variables of mpirun, srun or a PMI
// launcher.
#include "common/cluster/launch_env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace loch::cluster {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* here;         // variable with the number of ranks on this machine, or null
  const char* rank_here;    // variable with the index of this rank among those on this machine, or null
  const char* const* jobs;  // variables that may name the job; the first one set is used
};
constexpr const char* mpirun_jobs[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri",
                                       nullptr};
constexpr const char* srun_jobs[] = {"SLURM_JOB_ID", nullptr};
constexpr const char* pmi_jobs[] = {"PMI_ID", "PMI_KVSNAME", "PMI_JOBID", nullptr};
constexpr Launcher launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", mpirun_jobs},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID", srun_jobs},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", pmi_jobs},
};

Result<std::uint32_t> read_number(const char* variable, std::uint32_t most) {
  const char* text = std::getenv(variable);
  if (text == nullptr) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("environment: {} is not set though its companion is", variable));
  }
  const std::string_view view = text;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), number);
  if (error != std::errc{} || end != view.data() + view.size() || number > most) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("environment: {}=\"{}\": expected a whole number up to {}", variable, view, most));
  }
  return number;
}

std::string clean(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    out += is_plain ? c : '_';
  }
  return out.substr(0, 100);
}

// Returns a name that is unique to this launch. srun may start several steps in one job, so the step's
// number is part of the name.
std::string job_name(const Launcher& launcher) {
  std::string name;
  for (const char* const* variable = launcher.jobs; *variable != nullptr && name.empty(); ++variable) {
    if (const char* text = std::getenv(*variable)) name = text;
  }
  if (name.empty()) name = fmt::format("parent{}", getppid());
  if (const char* step = std::getenv("SLURM_STEP_ID");
      step != nullptr && launcher.name == std::string_view("srun")) {
    name += fmt::format("-{}", step);
    if (const char* restart = std::getenv("SLURM_RESTART_COUNT")) name += fmt::format("-{}", restart);
  }
  return clean(fmt::format("{}-{}-{}", launcher.name, getuid(), name));
}

}  // namespace

Result<LaunchEnv> launch_env() {
  for (const Launcher& launcher : launchers) {
    const bool has_rank = std::getenv(launcher.rank) != nullptr;
    const bool has_size = std::getenv(launcher.size) != nullptr;
    // A shell inside a Slurm allocation has the variable for the size but none for the rank: it is not a
    // task of a launch.
    if (!has_rank) {
      if (has_size && launcher.name != std::string_view("srun"))
        return std::unexpected(read_number(launcher.rank, 0).error());
      continue;
    }
    LaunchEnv env;
    env.launcher = launcher.name;
    LOCH_ASSIGN(env.ranks, read_number(launcher.size, 65'536));
    if (env.ranks == 0) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("environment: {}=0: expected at least 1", launcher.size));
    }
    LOCH_ASSIGN(env.rank, read_number(launcher.rank, env.ranks - 1));
    if (launcher.here != nullptr && std::getenv(launcher.here) != nullptr) {
      LOCH_ASSIGN(const std::uint32_t here, read_number(launcher.here, 65'536));
      // a Slurm allocation may have room for more tasks than ranks
      env.ranks_here = std::min(here, env.ranks);
    }
    if (launcher.rank_here != nullptr && std::getenv(launcher.rank_here) != nullptr) {
      LOCH_ASSIGN(env.rank_here, read_number(launcher.rank_here, env.ranks - 1));
    }
    env.job = job_name(launcher);
    return env;
  }
  LaunchEnv alone;
  alone.launcher = "none";
  alone.job = clean(fmt::format("single-{}-{}", getuid(), getpid()));
  return alone;
}

}  // namespace loch::cluster
