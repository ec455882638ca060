#!/bin/sh
# A plan on machines over ssh, by GNU parallel: PLAN=plan.json STORE=s3://bucket/fleet parallel.sh HOST…
#
# Each machine needs `weighbridge` and `weighbridge-fleet` on its PATH. The log says what is done: the same line again does the rest, and
# machines that were away are tried again. SSH is what reaches a machine; JOBS how many at once.
set -u
: "${PLAN:?the plan: weighbridge plan --suite quick --format json > plan.json}"
: "${STORE:?where records go}"
SPOOL=${SPOOL:-/var/tmp/weighbridge}
export PLAN STORE SPOOL SSH="${SSH:-ssh}"

# Credentials go over standard input: a command line is seen by everybody on the machine.
measure() {
    {
        env | grep -E '^(AWS|GOOGLE|AZURE)_[A-Z0-9_]*=' | sed "s/'/'\\\\''/g; s/=/='/; s/\$/'/; s/^/export /"
        cat <<SCRIPT
mkdir -p '$SPOOL' && cat > '$SPOOL/plan.json' <<'END_OF_PLAN'
$(cat "$PLAN")
END_OF_PLAN
weighbridge run --plan '$SPOOL/plan.json' --label machine='$1' ${CAMPAIGN:+--label campaign='$CAMPAIGN'} --out-dir '$SPOOL' --resume
code=\$?
weighbridge record push '$STORE' '$SPOOL' || code=\$?
exit \$code
SCRIPT
    } | $SSH "$1" sh -s
}
if [ "${1:-}" = --measure ]; then
    measure "$2"
    exit
fi
exec parallel --jobs "${JOBS:-20}" --joblog "${LOG:-weighbridge.log}" --resume-failed --retries 3 "$0" --measure ::: "$@"
