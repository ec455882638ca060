#!/bin/sh
# A plan on every node of an array: sbatch --export=ALL,PLAN=…,STORE=… slurm.sh
#
# PLAN   the plan, on a file system that the nodes share: weighbridge plan --suite quick --format json > plan.json
# STORE  where records go: s3://bucket/fleet, with credentials in the environment; or a folder that the nodes share
# SPOOL  a folder of the node that stays; records wait there until they are in the store
#
#SBATCH --job-name=weighbridge
#SBATCH --array=1-8
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
SPOOL=${SPOOL:-/var/tmp/weighbridge}
mkdir -p "$SPOOL"

# Preemption ends this script too. The record stays, and the next attempt on this node pushes it and measures what it lacks.
weighbridge run --plan "$PLAN" --label machine="$SLURMD_NODENAME" ${CAMPAIGN:+--label campaign="$CAMPAIGN"} --out-dir "$SPOOL" --resume
code=$?
# Safe to repeat, also what other jobs have left. 75 says: try again.
weighbridge record push "$STORE" "$SPOOL" || code=$?
if [ "$code" = 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 5 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
