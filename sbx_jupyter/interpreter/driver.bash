# Reads code from the descriptor in $0 and writes exit statuses to the one in $1, both NUL-ended.
exec 200<&"$0" 201>&"$1"
eval "exec $0<&- $1>&-"
set --
# An interrupt leaves every loop of the code, and then the one below.
trap '__sbx_interrupted=1; break 999' INT
__sbx_serve() {
  local __sbx_code
  while IFS= read -r -d '' -u 200 __sbx_code; do
    eval "$__sbx_code" 200<&- 201>&-
    printf '%s\0' "$?" >&201
  done
  [ -n "$__sbx_interrupted" ] || exit 0
}
while :; do
  __sbx_interrupted=
  __sbx_serve
  printf '130\0' >&201
done
