// Which rank of a launch this process is, as mpirun, srun or a PMI launcher tells it in environment
// variables. No call of MPI or PMIx is made.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace loch::cluster {

struct LaunchEnv {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t ranks_here = 0;  // number of ranks on this machine; 0: the launcher does not say
  // index of this rank among those on this machine; 0 also if the launcher does not say
  std::uint32_t rank_here = 0;
  std::string job;       // name of the launch, equal in all its processes: letters, digits, '-' and '_'
  std::string launcher;  // "mpirun", "srun" or "pmi"; "none" for a single process
};

// Reads OMPI_COMM_WORLD_RANK/SIZE/LOCAL_SIZE, then SLURM_PROCID/NTASKS/NTASKS_PER_NODE, then
// PMI_RANK/SIZE with Hydra's MPI_LOCALNRANKS; and OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID or
// MPI_LOCALRANKID. A rank without a size, a size without a
// rank, or a text that is no number is an error that names the variable.
[[nodiscard]] Result<LaunchEnv> launch_env();

}  // namespace loch::cluster
