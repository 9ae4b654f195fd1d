#!/bin/bash
# Checks a GPU before anything long is trained on it: `make gpu-check`, about 10 minutes. Stops at the first failure.
#
# It was written without a GPU and has never been run on one: look for the fault in the script first. With `cpu` as the second
# argument it does the steps that a CPU can.
#
# usage: scripts/gpu_check.sh PROGRAM [cuda|cpu]     (the program of `make build DEVICE=cuda`)
set -euo pipefail

program=$(realpath "$1")
device=${2:-cuda}
case $device in
  cuda) precisions="float32 tf32 bfloat16" ;;
  cpu) precisions="float32" ;;
  *) echo "usage: $0 PROGRAM [cuda|cpu]" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export SYNTHESIZER_CACHE="$place/cache"
cd "$place"

step() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# One small run; lines of $2 are added to [train].
experiment() {
  cat > "$1" <<TOML
task = "translation"
mix = ${3:-'["V", "R+V", "R+D", "D+V"]'}
[data]
corpus = "reverse"
vocabulary = 270
max_tokens = 40
[model]
d_model = 64
heads = 4
encoder_layers = 2
decoder_layers = 2
d_ff = 128
max_length = 64
[train]
steps = 40
batch_tokens = 2048
schedule = "linear"
learning_rate = 1e-3
warmup = 8
log_every = 10
evaluate_every = 20
$2
TOML
}

# The loss column of a run's log.
losses() { python3 - "$1" <<'PYTHON'
import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    print(row["step"], row["loss"])
PYTHON
}

step "doctor: the driver, one device"
"$program" doctor > doctor.txt || { cat doctor.txt; fail "doctor"; }
[ "$device" = cpu ] || grep -q "CUDA build, [1-9]" doctor.txt || { cat doctor.txt; fail "LibTorch sees no device"; }

step "golden files: every mix, padding and mask, outputs and gradients"
for precision in float64 $precisions; do
  "$program" parity --device "$device" --precision "$precision" "$here"/tests/golden/*.safetensors > "parity-$precision.txt" ||
    { cat "parity-$precision.txt"; fail "parity in $precision"; }
done

step "one run of each precision, without a line from LibTorch on standard error"
for precision in $precisions; do
  case $precision in
    float32) experiment "$precision.toml" "" ;;
    tf32) experiment "$precision.toml" "tf32 = true" ;;
    bfloat16) experiment "$precision.toml" 'precision = "bfloat16"' ;;
  esac
  "$program" run --device "$device" "$precision.toml" > "$precision.out" 2> "$precision.err" || { cat "$precision.err"; fail "$precision"; }
  if grep -i "warn" "$precision.err"; then fail "warnings in $precision"; fi
done

step "the first steps on CPU and CUDA agree without dropout"
flat='label_smoothing = 0.0'
for side in cpu "$device"; do
  experiment "same.toml" "$flat" '"R+V"'
  sed -i 's/^max_length = 64/&\ndropout = 0.0\nattention_dropout = 0.0\nrelu_dropout = 0.0/; s/^log_every = 10/log_every = 1/' same.toml
  "$program" run --device "$side" --results "same-$side" same.toml > /dev/null
  losses "same-$side"/custom/same/R+V-s1/log.csv > "same-$side.txt"
done
python3 - "$device" <<'PYTHON' || fail "CPU and CUDA differ"
import sys
rows = [dict(map(str.split, open(f"same-{device}.txt"))) for device in ("cpu", sys.argv[1])]
for at, bound in (("1", 1e-5), ("20", 1e-3)):
    a, b = (float(row[at]) for row in rows)
    print(f"step {at}: {a} {b}")
    assert abs(a - b) < bound, (at, a, b)
PYTHON

step "a deterministic run that is stopped resumes to the same bits"
experiment "bits.toml" "deterministic = true" '"R+V"'
"$program" run --device "$device" --results whole bits.toml > /dev/null
"$program" run --device "$device" --results parts --stop-after 20 bits.toml > /dev/null && fail "it did not stop"
"$program" run --device "$device" --results parts bits.toml > /dev/null
cmp <(losses whole/custom/bits/R+V-s1/log.csv) <(losses parts/custom/bits/R+V-s1/log.csv) || fail "the bits differ"

step "decoding on CPU and CUDA agrees in 95 of 100 lines"
for side in cpu "$device"; do
  seq 1 64 | sed 's/./& /g' | "$program" generate --device "$side" results/custom/float32/R+V-s1 > "lines-$side.txt"
done
different=$(paste -d '\n' lines-cpu.txt lines-"$device".txt | awk 'NR % 2 { a = $0; next } a != $0' | wc -l)
[ "$different" -le 3 ] || fail "$different of 64 lines differ"

step "speed of a training step, in three precisions"
for precision in $precisions; do
  "$program" bench train --device "$device" "$precision.toml"
done
echo "everything holds"
