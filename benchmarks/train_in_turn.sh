#!/usr/bin/env bash
# Trains models one after another on one GPU, then measures them: train_in_turn.sh NAME:SECONDS[:SEED] ...
# Recurrent networks fill a GPU by themselves. All are compiled side by side first, and each one starts while the
# one before it makes its last steps. Runs, exported weights in pieces of 15 MB and results are in runs/.
set -u
examples=${EXAMPLES:-20000} draws=${DRAWS:-4} generated=${GENERATED:-128} lead=${LEAD:-30}
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$PWD/runs/compiled}
mkdir -p runs/kept runs/results
start=$(date +%s)
say() { echo "$(($(date +%s) - start)) s: $*" | tee -a runs/log.txt; }
parts() {
    IFS=: read -r name seconds seed <<< "$1"
    seed=${seed:-0} label=${name//\//-}-$seed
}

compiling=()
for item in "$@"; do
    parts "$item"
    python3 -m catnf train "$name" --set training.steps=2 --quiet --restart -o "runs/warm/$label" \
        > "runs/warm-$label.txt" 2>&1 &
    compiling+=($!)
done
wait "${compiling[@]}"
say compiled

finish() { # a training that is under way: its weights, in a form that travels
    wait "$1"
    say "$2 trained, exit $?"
    python3 -m catnf export "runs/$2" -o "runs/kept/$2.safetensors" --shard-mb 15 > /dev/null
    say "$2 kept, exit $?"
}
before='' last=''
for item in "$@"; do
    parts "$item"
    began=$(date +%s)
    python3 -m catnf train "$name" --seed "$seed" --budget "$seconds" --quiet -o "runs/$label" \
        > "runs/log-$label.txt" 2>&1 &
    now=$!
    [ -n "$before" ] && finish "$before" "$last"
    before=$now last=$label
    while kill -0 "$now" 2> /dev/null && (($(date +%s) - began < seconds - lead)); do sleep 1; done
done
finish "$before" "$last"
for item in "$@"; do
    parts "$item"
    python3 -m catnf evaluate "runs/kept/$label.safetensors" --split test --examples "$examples" \
        --samples "$draws" --generated "$generated" --results runs/results > "runs/measured-$label.txt" 2>&1
    say "$label measured, exit $?"
done
