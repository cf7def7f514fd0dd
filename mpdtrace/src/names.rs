/// The tools, each of which is this program under another name. The build script makes the names.
pub const NAMES: [&str; 16] = [
    "mpdtrace",
    "mpdringtest",
    "mpdwatch",
    "mpdping",
    "mpdexit",
    "mpdallexit",
    "mpddrain",
    "mpdlistjobs",
    "mpdnames",
    "mpdtop",
    "mpdkilljob",
    "mpdsigjob",
    "mpdstdin",
    "mpdcleanup",
    "mpdcheck",
    "mpdhelp",
];
