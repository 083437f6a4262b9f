#!/bin/sh
# The start of a container: migrates the schema, one instance at a time, and then starts the service.
#   migrate-and-start.sh npx prisma migrate deploy
set -eu
: "${HOLDFAST_URL:?the store of the locks, such as postgres://app@db/shop}"

# 75: the lock was not free in time. Any other code but 0: the migration failed. The service is not started.
holdfast run migrations --wait 10m -- "$@"
exec node server.js
