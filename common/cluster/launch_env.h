// Who this process is among those of one launch, as mpirun, srun or a PMI launcher says it in the
// environment. No MPI call is made.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace loch::cluster {

struct LaunchEnv {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t ranks_here = 0;  // ranks of the launch on this machine; 0: the launcher does not say
  std::uint32_t rank_here = 0;   // among those on this machine; 0 too where the launcher does not say
  std::string job;               // the same text in every process of the launch, letters, digits, '-' and '_'
  std::string launcher;          // "mpirun", "srun", "pmi", or "none": a single process
};

// Reads OMPI_COMM_WORLD_RANK/SIZE/LOCAL_SIZE, then SLURM_PROCID/NTASKS/NTASKS_PER_NODE, then
// PMI_RANK/SIZE; and OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID. Half of a pair, or a text that is no
// number, is an error that names the variable.
[[nodiscard]] Result<LaunchEnv> launch_env();

}  // namespace loch::cluster
