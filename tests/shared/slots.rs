//! Commands that show whether two of them have the same slots at the same time.

/// A script for `sh -c`, in a directory with a file `used.HOST` for each host, which has `0`. It adds the slots of its
/// allocation to the counts of their hosts, waits as long as its first argument says, and takes them away again. A count above
/// `$SLOTS` is written to the file `violations`, and the second argument at the end to `done`.
pub const COUNTING: &str = r#"
count() {
    for part in $MPD_ALLOC_SLOTS; do
        flock "lock.${part%:*}" sh -c '
            read used < "used.$1" || used=0
            used=$((used + $2))
            echo $used > "used.$1"
            [ $used -le $3 ] || echo "$1: $used" >> violations
        ' sh "${part%:*}" "$1${part#*:}" "$SLOTS"
    done 2>> errors
}
trap '' TERM
count +
trap 'trap "" TERM; count -; exit 9' TERM
sleep "$1"
trap '' TERM
count -
echo "$2" >> done
"#;

/// Whether a request was made, by the messages of its `mpdalloc`: a daemon may die before it knows the request.
#[must_use]
pub fn was_made(messages: &str) -> bool {
    let refusals = ["no daemon is running", "the daemon ended", "connection to the daemon failed"];
    !refusals.iter().any(|refusal| messages.contains(refusal))
}
