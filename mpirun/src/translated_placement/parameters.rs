//! The parameters of Open MPI's launchers, by option, by variable and in files. An option of a command line comes before a
//! parameter. Of parameters, those of options come first, then those of the files of `-tune`, of variables, of the files of
//! `-am`, and of the files in the home directory.

use super::parameter_files;
use crate::argsets::Argsets;
use crate::dialect::parameters::{self, BEGINNINGS, Given, Meaning};
use crate::dialect::{Dialect, Layout};
use crate::options::Key;
use crate::usage::Usage;

/// Adds the effects of all parameters. Those of variables that place ranks go to `layout`; `given` has the parameters of
/// options.
///
/// # Errors
/// A value has no meaning here.
pub(super) fn apply(
    argsets: &mut Argsets<'_>,
    given: &mut Layout,
    layout: &mut Layout,
) -> Result<(), Usage> {
    let mut known = Vec::new();
    for parameter in std::mem::take(&mut given.launch.parameters) {
        add(argsets, &parameter, given)?;
        known.push(parameter.key);
    }
    given.launch.end_options();
    for files in std::mem::take(&mut given.launch.tune_files) {
        let parameters = parameter_files::named(argsets, &files)?;
        add_new(argsets, parameters, layout, &mut known)?;
    }
    let by_variable = variables(argsets);
    add_new(argsets, by_variable, layout, &mut known)?;
    let by_variables = std::mem::take(&mut layout.launch.tune_files);
    let of_less_weight = std::mem::take(&mut given.launch.files);
    for files in [by_variables, of_less_weight, std::mem::take(&mut layout.launch.files)].concat() {
        let parameters = parameter_files::named(argsets, &files)?;
        add_new(argsets, parameters, layout, &mut known)?;
    }
    // A job without anything of Open MPI's launchers does not look for the files.
    if argsets.dialect.is_some_and(Dialect::is_open_mpi) || !known.is_empty() {
        let parameters = parameter_files::of_home(argsets.caller())?;
        add_new(argsets, parameters, layout, &mut known)?;
    }
    Ok(())
}

/// Adds the effects of parameters that are not known yet. Those of one source are known after it.
fn add_new(
    argsets: &mut Argsets<'_>,
    parameters: Vec<Given>,
    layout: &mut Layout,
    known: &mut Vec<String>,
) -> Result<(), Usage> {
    for parameter in parameters {
        if !known.iter().any(|key| parameters::are_same(key, &parameter.key)) {
            add(argsets, &parameter, layout)?;
            known.push(parameter.key);
        }
    }
    Ok(())
}

/// The parameters of the caller's variables, in their order.
fn variables(argsets: &Argsets<'_>) -> Vec<Given> {
    let given = |entry: &Vec<u8>| {
        let (name, value) = str::from_utf8(entry).ok()?.split_once('=')?;
        let key = BEGINNINGS.iter().find_map(|beginning| name.strip_prefix(beginning))?;
        let said = format!("the variable {name}={value}");
        Some(Given { said, key: key.to_owned(), value: value.to_owned() })
    };
    argsets.caller().environment.iter().filter_map(given).collect()
}

/// Adds the effect of one parameter, or a line about a parameter without effect.
fn add(argsets: &mut Argsets<'_>, given: &Given, layout: &mut Layout) -> Result<(), Usage> {
    let said = &given.said;
    let caller = argsets.caller();
    let before = layout.clone();
    let meaning = parameters::meaning(given, layout, caller);
    let meaning = meaning.map_err(|e| Usage::new(format!("{said}: {e}")))?;
    if layout.differs(&before) {
        layout.say(said.clone());
    }
    let notes = layout.take_notes().into_iter().map(|note| format!("{said}: {note}"));
    let mut remarks: Vec<String> = notes.collect();
    match meaning {
        Meaning::Words(words) => argsets.add_unless_given(said, words)?,
        Meaning::Nothing(reason) => remarks.push(format!("{said} has no effect: {reason}")),
        Meaning::OfLibrary => {}
    }
    // In a job, the variables are those of the launcher around it.
    if caller.variable(b"OMPI_COMM_WORLD_RANK").is_none() {
        remarks.into_iter().for_each(|remark| argsets.remark(remark));
    }
    Ok(())
}

/// Adds what the collected parameters say about hosts, variables and the start of daemons.
///
/// # Errors
/// A value has no meaning here, or the data of the batch system are not valid.
pub(super) fn prepare(argsets: &mut Argsets<'_>, layout: &Layout) -> Result<(), Usage> {
    let launch = &layout.launch;
    let caller = argsets.caller();
    if let Some((said, hosts)) = launch.hosts()
        && !argsets.has(Key::Hosts)
        && !argsets.has_allocation()?
    {
        argsets.add_words(said, hosts.clone())?;
    }
    if let Some(slots) = layout.default_slot_count(caller) {
        argsets.use_slots(slots);
    }
    for (name, value) in launch.exports() {
        match value {
            Some(value) if argsets.assigned(|known| known == name.as_bytes()).is_empty() => {
                let words = ["-genv", name, value].map(str::to_owned).to_vec();
                argsets.add_words(&format!("{name}={value}"), words)?;
            }
            None if caller.variable(name.as_bytes()).is_none() && !name.ends_with('*') => {
                argsets.remark(format!("{name} of mca_base_env_list has no effect: it is not set"));
            }
            Some(_) | None => {}
        }
    }
    // An option of ours comes before Slurm and before parameters.
    let is_chosen = argsets.has(Key::Launcher) || argsets.has(Key::LauncherProgram);
    let by_slurm = match argsets.job.placement.named_launcher() {
        Some(launcher) => ["srun", "slurm"].contains(&launcher),
        None => argsets.is_in_slurm(),
    };
    match launch.launcher(by_slurm) {
        Some(options) => {
            let is_wanted = |words: &Vec<String>| !is_chosen || words[0] == "-launcher-args";
            for words in options.into_iter().filter(is_wanted) {
                argsets.add_unless_given(&words.join(" "), words)?;
            }
        }
        None => argsets.remark(
            "plm_rsh_agent and plm_rsh_args have no effect: Slurm starts the daemons, unless -launcher ssh is given"
                .to_owned(),
        ),
    }
    Ok(())
}
