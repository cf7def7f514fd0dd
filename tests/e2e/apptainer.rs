//! Programs in images of Apptainer. A stand-in has the place of `apptainer`: it treats environment and descriptors as
//! the real one does, and runs the program without an image.

use std::os::unix::fs::PermissionsExt as _;

use crate::run::Output;
use crate::suite::Suite;

const RANKS: u32 = 4;

/// `apptainer exec`: the environment is passed on, except for the paths of the host. With `--cleanenv` only few
/// variables are. Those with the prefix APPTAINERENV_ lose the prefix. Descriptors stay open.
const STAND_IN: &str = r#"#!/bin/bash
[[ $1 == exec ]] || { echo "FATAL: unknown command $1" >&2; exit 1; }
shift
clean=
while [[ $1 == -* ]]; do
    case $1 in
    -e | --cleanenv) clean=1 ;;
    *) echo "Error: unknown flag: $1" >&2; exit 1 ;;
    esac
    shift
done
image=$1 && shift
kept=() given=()
while IFS= read -r -d '' entry; do
    case $entry in
    APPTAINERENV_*) given+=("${entry#APPTAINERENV_}") ;;
    APPTAINER* | SINGULARITY* | PATH=* | LD_LIBRARY_PATH=*) ;;
    TERM=* | HOME=* | http_proxy=* | https_proxy=* | no_proxy=*) kept+=("$entry") ;;
    *) [[ -n $clean ]] || kept+=("$entry") ;;
    esac
done </proc/self/environ
kept+=(PATH=/usr/bin:/bin LD_LIBRARY_PATH=/.singularity.d/libs "APPTAINER_NAME=$image")
exec env -i "${kept[@]}" "${given[@]}" "$@"
"#;

/// The command of the manual for `--cleanenv`.
const CLEAN: &str = r#"for name in $(env | sed -n 's/^\(PMI[A-Z0-9_]*\)=.*/\1/p'); do
    export "APPTAINERENV_$name=$(printenv "$name")"
done
exec apptainer exec --cleanenv image.sif "$@"
"#;

/// A suite with the stand-in and the script `clean` in PATH.
fn suite() -> Suite {
    let suite = Suite::new();
    let bin = suite.path("work/bin");
    std::fs::create_dir(&bin).expect("a directory");
    for (name, text) in
        [("apptainer", STAND_IN.to_owned()), ("clean", format!("#!/bin/sh\n{CLEAN}"))]
    {
        let path = bin.join(name);
        std::fs::write(&path, text).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    suite
}

/// Runs this command in each rank, behind the wrapper.
fn wrapped(suite: &Suite, wrapper: &[&str], command: &[&str]) -> Output {
    let path = std::env::var("PATH").expect("PATH");
    let path = format!("{}:{path}", suite.path("work/bin").display());
    let run = suite.mpirun(["-np", &RANKS.to_string()]).env("PATH", path);
    run.args(wrapper).args(command).output()
}

#[test]
fn ranks_in_an_image_keep_their_pmi_connection_their_variables_and_their_exit_code() {
    let suite = suite();
    let exec = ["apptainer", "exec", "image.sif"];
    let client = suite.program("t-pmi");
    wrapped(&suite, &exec, &[&client, "put-fence-get-all", "3"]).code(0);
    wrapped(&suite, &exec, &[&client, "finalize-then", "2", "6"]).code(6).says(&["rank 2"]);
    let show = "echo $PMI_RANK $APPTAINER_NAME $LD_LIBRARY_PATH";
    let output = wrapped(&suite, &exec, &["sh", "-c", show]);
    output.code(0).quiet();
    let wanted = |rank: u32| format!("{rank} image.sif /.singularity.d/libs");
    assert_eq!(output.sorted_lines(), (0..RANKS).map(wanted).collect::<Vec<_>>());
    suite.gone(&[]);
}

#[test]
fn a_clean_environment_in_the_image_gets_the_variables_of_pmi_by_their_prefix() {
    let suite = suite();
    let client = suite.program("t-pmi");
    wrapped(&suite, &["clean"], &[&client, "put-fence-get-all", "3"]).code(0);
    wrapped(&suite, &["clean"], &[&client, "fences", "20"]).code(0);
    let show = "echo ${PMI_SIZE:-no} ${MPD_JOB_COOKIE:-no} $APPTAINER_NAME";
    let output = wrapped(&suite, &["clean"], &["sh", "-c", show]);
    output.code(0).quiet();
    assert_eq!(output.sorted_lines(), ["4 no image.sif"; 4]);
    suite.gone(&[]);
}
