#!/bin/bash
# Trains examples/raf.yaml in four processes, one GPU each:
#
#   sbatch examples/cluster/slurm.sh
#
# More options go to hetjax: sbatch examples/cluster/slurm.sh --train.epochs 10.
# A job that ends before the run does goes on where its last checkpoint is: submit it again, with any number of tasks that
# divides mesh.relation x mesh.data. The work directory, and a store if the run reads one, lie on storage that all nodes share.
#SBATCH --job-name=hetjax
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00

set -e
cd "$SLURM_SUBMIT_DIR"
. .venv/bin/activate
srun python -m hetjax.train --config examples/raf.yaml --workdir runs/raf-slurm --cluster slurm "$@"
