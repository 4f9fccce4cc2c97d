#!/usr/bin/env bash
# Runs scripts/run_neuron_tests.sh on a Trainium instance, fetches the records and stops the instance:
# also after an error, Ctrl-C or a closed terminal, and if it was already running.
#   AWS_PROFILE=lab TAG=trnsci=neuron DIRECTORY=/home/ubuntu/trnsci scripts/run_on_trainium.sh
# TAG        key and value of the tag of exactly one Trainium instance
# DIRECTORY  checkout on the instance
# PYTHON     interpreter on the instance that has the Neuron SDK
# MINUTES    time limit for starting, and again for each of the two commands
# RECORDS    local folder for the records
# POLL_SECONDS  time between two queries of the instance's state
set -eu
cd "$(dirname "$0")/.."
tag="${TAG:-trnsci=neuron}"
directory="${DIRECTORY:-/home/ubuntu/trnsci}"
python="${PYTHON:-python}"
seconds=$((60 * ${MINUTES:-120}))
records="${RECORDS:-src/trnsci/validation/hardware}"
poll="${POLL_SECONDS:-5}"
mark="/tmp/trnsci-$$-$RANDOM" # on the instance: a run's output, and the time of its start
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export AWS_PAGER=""

fail() {
    echo "$1" >&2
    exit 1
}

# Prints what a query of the aws command selects, as text.
query() {
    aws "${@:2}" --query "$1" --output text
}

# Waits before the next attempt; ends the run at the time $1 with the sentence $2.
pause() {
    [ "$SECONDS" -lt "$1" ] || fail "$2 within $seconds s"
    sleep "$poll"
}

# An interrupted stop would leave the instance on: signals are ignored here.
stop() {
    trap '' INT TERM HUP
    rm -rf "$scratch"
    for _ in 1 2 3; do
        if aws ec2 stop-instances --instance-ids "$instance" >/dev/null; then
            echo "stopped $instance"
            return
        fi
        sleep "$poll"
    done
    fail "$instance is still on and costs money. Stop it: aws ec2 stop-instances --instance-ids $instance"
}

# Runs a script on the instance. Its output goes to the file $2; the status is that of the script.
on_instance() {
    local encoded name status end=$((SECONDS + seconds))
    encoded=$(base64 <<<"$1" | tr -d '\n') # JSON would need its quotes escaped
    name=$(query Command.CommandId ssm send-command --instance-ids "$instance" \
        --document-name AWS-RunShellScript --parameters \
        "{\"commands\":[\"echo $encoded | base64 -d | sh\"],\"executionTimeout\":[\"$seconds\"]}") ||
        fail "$instance refuses the command"
    local invocation=(ssm get-command-invocation --command-id "$name" --instance-id "$instance")
    while :; do
        pause "$end" "the command $name did not end"
        # SSM does not know a command at once; any other error ends at the time limit.
        status=$(query Status "${invocation[@]}") || continue
        case "$status" in
        Pending | InProgress | Delayed | Cancelling) ;;
        Success | Failed)
            query StandardOutputContent "${invocation[@]}" >"$2"
            query StandardErrorContent "${invocation[@]}" >&2
            [ "$status" = Success ]
            return
            ;;
        *) fail "the command $name ended as $status" ;;
        esac
    done
}

found=$(query 'Reservations[].Instances[].[InstanceId,State.Name]' ec2 describe-instances --filters \
    "Name=tag:${tag%%=*},Values=${tag#*=}" "Name=instance-type,Values=trn*" \
    "Name=instance-state-name,Values=pending,running,stopping,stopped")
[ "$(wc -w <<<"$found")" = 2 ] ||
    fail "one Trainium instance with the tag $tag needed, got: ${found:-none}"
read -r instance state <<<"$found"
trap stop EXIT
trap 'exit 130' INT TERM HUP

[ "$state" != stopping ] || aws ec2 wait instance-stopped --instance-ids "$instance"
echo "starting $instance"
aws ec2 start-instances --instance-ids "$instance" >/dev/null
end=$((SECONDS + seconds))
until [ "$(query 'InstanceInformationList[0].PingStatus' ssm describe-instance-information \
    --filters "Key=InstanceIds,Values=$instance")" = Online ]; do
    pause "$end" "$instance accepts no commands through SSM"
done

echo "running scripts/run_neuron_tests.sh in $directory"
printf -v there "'%s'" "${directory//\'/\'\\\'\'}"
printf -v interpreter "'%s'" "${python//\'/\'\\\'\'}"
passed=0
# SSM returns 24,000 characters, so that the end of the output alone is printed.
on_instance "cd $there || exit 1
: > $mark
status=0
PYTHON=$interpreter scripts/run_neuron_tests.sh > $mark.log 2>&1 </dev/null || status=\$?
tail -c 20000 $mark.log
exit \$status" "$scratch/log" || passed=1
cat "$scratch/log"
# Records older than the run are not fetched.
on_instance "cd $there/src/trnsci/validation/hardware || exit 1
find . -name '*.json' -newer $mark | tar -cf - -T - | gzip -9 | base64
rm -f $mark $mark.log" "$scratch/archive" || fail "no records: $(cat "$scratch/archive")"
mkdir "$scratch/records"
base64 -d "$scratch/archive" 2>/dev/null | tar -xzf - -C "$scratch/records" 2>/dev/null ||
    fail "the archive of records is damaged, or longer than the 24,000 characters that SSM returns"
count=$(find "$scratch/records" -name '*.json' | wc -l)
[ "$count" != 0 ] || fail "the run wrote no record; the reason is in its output above"
mkdir -p "$records"
cp "$scratch"/records/*.json "$records"
echo "$count records in $records; trnsci status shows them"
exit "$passed"
