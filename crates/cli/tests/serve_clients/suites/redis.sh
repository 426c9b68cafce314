#!/bin/sh
# Stands in for redis-server under Redis's own tests: reads the configuration file that they write,
# and becomes `keyrack serve` with what it says.
set -eu
setting() { sed -n "s/^$1 //p" "$config" | tail -n 1 | tr -d '"'; }
config=$1
port=$(setting port)
dir=$(setting dir)
set -- --engine masstree --threads 2 --debug-commands --value-max 512M --request-max 513M --listen "resp://127.0.0.1:$port"
password=$(setting requirepass)
if [ -n "$password" ]; then
  (umask 077 && printf '%s\n' "$password" >"$dir/password")
  set -- "$@" --password-file "$dir/password"
fi
# What the tests wait for in the log; then they ask until somebody answers.
echo "stands in for redis-server, PID: $$"
echo 'Ready to accept connections'
exec "$KEYRACK" serve "$@"
