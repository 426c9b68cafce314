#!/bin/sh
# Stands in for memcached under the tests of others: becomes `keyrack serve` with what the options
# of memcached mean. Options of what is not served end it with status 2.
set -eu
port=11211
address=${MEMCACHED_HOST:-127.0.0.1}
listen=
memory=64
connections=1024
eviction=clock
more=
tls=
while [ $# -gt 0 ]; do
  case $1 in
    -h) echo 'stands in for memcached; -Y authfile'; exit 0 ;;
    -p) port=$2; shift ;;
    -p[0-9]*) port=${1#-p} ;;
    -l) address=$2; shift ;;
    -s) listen="memcached+unix://$2"; shift ;;
    -m) memory=$2; shift ;;
    -M) eviction=noeviction ;;
    -I) more="$more --value-max $(echo "$2" | tr kmg KMG)"; shift ;;
    -c) connections=$2; shift ;;
    -t) more="$more --threads $2"; shift ;;
    -Y)
      # NAME:PASSWORD a line; the first password is the only one here.
      (umask 077 && sed -n '1s/^[^:]*://p' "$2" >"password.$$")
      more="$more --password-file password.$$"
      shift
      ;;
    -a) more="$more --unix-mode $2"; shift ;;
    -Z) tls=+tls ;;
    -B) [ "$2" = auto ] || { echo "stand-in: -B $2 is not served" >&2; exit 2; }; shift ;;
    # UDP of memcached's is not served; who runs the test means nothing.
    -U | -u | -R | -b) shift ;;
    -v | -vv | -vvv | -o) [ "$1" != -o ] || {
      case $2 in
        relaxed_privileges | no_modern | modern | slab_chunk_max=* | no_modern,slab_chunk_max=* | ssl_verify_mode=1) ;;
        ssl_key=*) more="$more --tls-key ${2#ssl_key=}" ;;
        ssl_chain_cert=*) more="$more --tls-cert ${2#ssl_chain_cert=}" ;;
        idle_timeout=*) more="$more --idle-timeout ${2#idle_timeout=}" ;;
        *) echo "stand-in: -o $2 is not served" >&2; exit 2 ;;
      esac
      shift
    } ;;
    *) echo "stand-in: $1 is not served" >&2; exit 2 ;;
  esac
  shift
done
[ "$memory" = 0 ] || more="$more --memory-max ${memory}M --eviction $eviction"
# shellcheck disable=SC2086
exec "$KEYRACK" serve --engine masstree --connections-max "$connections" \
  --listen "${listen:-memcached$tls://$address:$port}" $more
