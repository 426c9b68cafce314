# Sourced by `run` and `nightly`: cargo, the table of stages and the closing line.

started=$SECONDS
closing_file=$(mktemp)
table_file=$(mktemp)

# Prints the table, the total time and the closing line, and exits as the script would have.
finish() {
  local status=$? total=$((SECONDS - started)) closing='0 passed, 1 failed'
  if [[ -s $closing_file ]]; then
    closing=$(<"$closing_file")
  fi
  printf '\n%-34s %-7s %s\n' stage result time
  cat "$table_file"
  rm -f "$closing_file" "$table_file"
  printf 'total: %d min %02d s\n%s\n' $((total / 60)) $((total % 60)) "$closing"
  exit "$status"
}
trap finish EXIT

find_cargo() {
  local folder="${CARGO_HOME:-${HOME:-}/.cargo}/bin"
  if ! command -v cargo >/dev/null && [[ -x $folder/cargo ]]; then
    export PATH="$folder:$PATH"
  fi
  if ! command -v cargo >/dev/null; then
    echo "ci: cargo is not on the PATH; install Rust (https://rustup.rs) and run this again" >&2
    exit 2
  fi
}

# Passes lines on. Ends of stages also go into the table, and the closing line waits for `finish`.
watch_stages() {
  local line
  while IFS= read -r line || [[ -n $line ]]; do
    if [[ $line =~ ^[0-9]+\ passed,\ [0-9]+\ failed(,\ [0-9]+\ skipped)?$ ]]; then
      printf '%s\n' "$line" >"$closing_file"
      continue
    fi
    if [[ $line =~ ^==\ (.+):\ (ok|FAILED),\ (.+)$ ]]; then
      printf '%-34s %-7s %s\n' "${BASH_REMATCH[@]:1:3}" >>"$table_file"
    fi
    printf '%s\n' "$line"
  done
}
