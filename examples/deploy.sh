#!/bin/sh
# One deployment of a service at a time, for the whole team: deploy.sh SERVICE
set -eu
export HOLDFAST_URL="${HOLDFAST_URL:-redis://locks.internal:6379}"

# Waits in the queue for a quarter of an hour; exit code 75 when that was not enough. When the lock
# is lost in time (74), the steps have been ended before another deployment could begin.
exec holdfast run "deploy:$1" --wait "${DEPLOY_WAIT:-15m}" --ttl 1m -- ./deploy-steps.sh "$1"
