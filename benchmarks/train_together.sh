#!/usr/bin/env bash
# Trains and measures models side by side on one GPU: train_together.sh SECONDS NAME[:SEED] ...
# Each gets the same time budget. Small models leave a GPU half idle, so they may share it (start NVIDIA's
# MPS daemon first, so that their kernels really overlap).
set -u
budget=$1; shift
mkdir -p runs
for item in "$@"; do
    name=${item%%:*}; seed=${item#*:}; [ "$seed" = "$item" ] && seed=0
    folder=runs/$name/seed-$seed
    # One evaluation of a name at a time: its seeds share a file of results.
    { python3 -m catnf train "$name" --seed "$seed" --budget "$budget" --quiet -o "$folder" &&
      flock "runs/${name//\//-}.lock" python3 -m catnf evaluate "$folder" --split test --samples 1000 \
          --examples "${EXAMPLES:-1024}" --results results; } \
        > "runs/log-${name//\//-}-$seed.txt" 2>&1 &
done
wait
