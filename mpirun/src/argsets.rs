//! Turns sections of the command line into a job: the options of each program, the defaults for all
//! programs, and the resulting specification. Pure: all facts about the process are in the
//! [`Caller`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use mpd_placement::by_load;
use mpd_placement::gpus::VARIABLES_OF_GPUS;
use mpd_placement::hosts::HostEntry;
use mpd_wire::job::{Argset, ArgumentFormat, Bytes, CpuChoice, JobSpec, MAX_ARGSETS, Misfit};

use crate::allocation::{self, Allocation};
use crate::caller::Caller;
use crate::chosen;
use crate::demand::Demand;
use crate::dialect::{Dialect, Layout};
use crate::environment::{self, Variables};
use crate::hosts;
use crate::job_options::{JobOptions, Universe, absolute};
use crate::local::Local;
use crate::once::Once;
use crate::options::{Key, Reach};
use crate::scan::{self, Section, Setting};
use crate::slots::{self, Held, Wait};
use crate::surroundings::Surroundings;
use crate::usage::Usage;

/// Search path for programs if there is no `PATH`.
const DEFAULT_SEARCH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Collects sections of the command line.
#[derive(Debug)]
pub struct Argsets<'a> {
    caller: &'a Caller,
    /// The options of the whole job.
    pub job: JobOptions,
    defaults: Local,
    programs: Vec<Program>,
    /// The keys of all options so far.
    keys: Vec<Key>,
    /// Lines about options without effect, each once.
    remarks: Vec<String>,
    /// Options of another launcher that become ours at the end.
    pub(crate) layout: Layout,
    /// The launcher in whose words the command line is written.
    pub(crate) dialect: Option<Dialect>,
    /// The first option of a program that names the unwanted hosts.
    complement: Option<String>,
    /// The slots of this host by a parameter of Open MPI.
    slots: Option<u32>,
    /// The ranks are debuggers, whose hosts are those of another job.
    pub(crate) attaches: bool,
}

/// A section that has a program.
#[derive(Debug)]
struct Program {
    local: Local,
    words: Vec<OsString>,
    origin: Option<String>,
}

impl<'a> Argsets<'a> {
    /// A collection without sections.
    pub fn new(caller: &'a Caller) -> Self {
        let (job, defaults) = (JobOptions::default(), Local::default());
        Self {
            caller,
            job,
            defaults,
            programs: Vec::new(),
            keys: Vec::new(),
            remarks: Vec::new(),
            layout: Layout::default(),
            dialect: None,
            complement: None,
            slots: None,
            attaches: false,
        }
    }

    /// Adds a section; `origin` is its file and line, or `None` for the command line.
    pub fn add(&mut self, section: Section, origin: Option<String>) -> Result<(), Usage> {
        self.note(section, origin.clone()).map_err(|e| e.at(origin.as_ref()))
    }

    fn note(&mut self, section: Section, origin: Option<String>) -> Result<(), Usage> {
        let mut local = Local::default();
        self.layout.join(section.layout);
        self.dialect = section.dialect.or(self.dialect);
        for remark in section.remarks {
            self.remark(remark);
        }
        for setting in &section.settings {
            if hosts::is_complement(setting) {
                self.note_complement(setting)?;
                continue;
            }
            if !self.keys.contains(&setting.opt.key) {
                self.keys.push(setting.opt.key);
            }
            match setting.opt.reach {
                Reach::Argset => local.note(setting)?,
                Reach::Defaults => self.defaults.note(setting)?,
                Reach::Job | Reach::Instead => {
                    self.job.note(setting, &self.caller.directory)?;
                }
            }
        }
        match section.program {
            Some(words) => self.programs.push(Program { local, words, origin }),
            None => {
                let local = section.settings.iter().find(|s| s.opt.reach == Reach::Argset);
                if let Some(setting) = local {
                    return Err(without_program(setting));
                }
            }
        }
        if self.programs.len() > MAX_ARGSETS {
            let text = format!("a job may have at most {MAX_ARGSETS} programs");
            return Err(Usage::new(text));
        }
        Ok(())
    }

    /// Adds hosts that are named as `^h1`: all others.
    fn note_complement(&mut self, setting: &Setting) -> Result<(), Usage> {
        let is_of_program =
            setting.opt.reach == Reach::Argset || self.dialect.is_some_and(Dialect::is_open_mpi);
        if is_of_program {
            self.complement.get_or_insert_with(|| setting.to_string());
        }
        self.job.placement.exclude(setting)
    }

    /// Adds options of ours; messages call them `said`.
    pub(crate) fn add_words(&mut self, said: &str, words: Vec<String>) -> Result<(), Usage> {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        self.add(scan::options(&words)?.said_by(said), None)
    }

    /// Adds options of ours, unless an option of their kind was given.
    pub(crate) fn add_unless_given(&mut self, said: &str, words: Vec<String>) -> Result<(), Usage> {
        if words.is_empty() {
            return Ok(());
        }
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let section = scan::options(&words)?.said_by(said);
        let is_given = section.settings.iter().any(|setting| self.has(setting.opt.key));
        if is_given { Ok(()) } else { self.add(section, None) }
    }

    /// Whether a batch system or an allocation of ours gives the hosts.
    pub(crate) fn has_allocation(&self) -> Result<bool, Usage> {
        Ok(self.allocation().is_some() || Allocation::find(self.caller)?.is_some())
    }

    /// Whether Slurm starts the daemons, unless options say otherwise.
    pub(crate) fn is_in_slurm(&self) -> bool {
        allocation::is_within_srun(self.caller)
    }

    /// The slots of the hosts that a job of so many processes uses; `None`: they are not known.
    pub(crate) fn rooms(&self, processes: u64) -> Result<Option<Vec<u32>>, Usage> {
        let named = self.named_hosts().filter(|hosts| !hosts.is_empty());
        if let Some(hosts) = named {
            return Ok(hosts.iter().map(|host| host.ncpus).collect());
        }
        if let Some(allocation) = Allocation::find(self.caller)? {
            return Ok(allocation.hosts.iter().map(|host| host.slots).collect());
        }
        // A host is filled before the next one is used.
        let here = u32::try_from((self.caller.cpus)().len()).unwrap_or(u32::MAX);
        Ok((processes <= here.into()).then(|| vec![here]))
    }

    /// Gives hosts without a number so many slots. A host that occurs several times has as many slots as lines, as in Open
    /// MPI.
    pub(crate) fn use_slots(&mut self, slots: u32) {
        self.slots = Some(slots);
        let Some(hosts) = self.job.placement.hosts.get_mut() else { return };
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for host in &*hosts {
            *counts.entry(host.host.clone()).or_default() += 1;
        }
        for host in hosts {
            let is_repeated = counts.get(&host.host).is_some_and(|&count| count > 1);
            host.ncpus = host.ncpus.or(Some(if is_repeated { 1 } else { slots }));
        }
    }

    /// Adds a line about something without effect.
    pub(crate) fn remark(&mut self, line: String) {
        if !self.remarks.contains(&line) {
            self.remarks.push(line);
        }
    }

    /// Lines about options without effect.
    pub(crate) fn take_remarks(&mut self) -> Vec<String> {
        let locals = std::iter::once(&self.defaults).chain(self.programs.iter().map(|p| &p.local));
        let unset = locals.flat_map(|local| local.environment.unset(&self.caller.environment));
        let unset: Vec<String> = unset.collect();
        self.remarks.extend(unset);
        if self.job.placement.gives_gpus() {
            let (caller, assigned) = (self.caller, self.assigned(|_| true));
            let is_set = |name: &&&str| {
                assigned.contains_key(name.as_bytes()) || caller.variable(name.as_bytes()).is_some()
            };
            let line = |name: &&str| {
                format!(
                    "-gpus-per-proc does not change {name}, because this variable is set already"
                )
            };
            let set: Vec<String> = VARIABLES_OF_GPUS.iter().filter(is_set).map(line).collect();
            self.remarks.extend(set);
        }
        std::mem::take(&mut self.remarks)
    }

    /// Whether an option of this kind was given. Options that name hosts are of one kind, and so are the options that
    /// select inherited variables.
    pub(crate) fn has(&self, key: Key) -> bool {
        const HOSTS: [Key; 3] = [Key::Host, Key::HostFile, Key::Hosts];
        const INHERITED: [Key; 3] = [Key::EnvAll, Key::EnvList, Key::EnvNone];
        let kind = [&HOSTS, &INHERITED].into_iter().find(|kind| kind.contains(&key));
        match kind {
            Some(kind) => kind.iter().any(|key| self.keys.contains(key)),
            None => self.keys.contains(&key),
        }
    }

    /// The values that `-genv`, or `-env` of an only program, give to these variables.
    pub(crate) fn assigned(&self, is_wanted: impl Fn(&[u8]) -> bool) -> BTreeMap<Bytes, Bytes> {
        let own = self.programs.first().filter(|_| self.programs.len() == 1);
        let choices = std::iter::once(&self.defaults).chain(own.map(|program| &program.local));
        let all = choices.flat_map(|local| local.environment.assigned());
        all.filter(|(name, _)| is_wanted(name)).cloned().collect()
    }

    pub(crate) const fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// Keeps the hosts of programs within those of the host file, as Open MPI does. A host without a number, which `is_plain`
    /// tells, has the slots of the file.
    pub(crate) fn limit_to_file(&mut self, is_plain: impl Fn(&str) -> bool) -> Result<(), Usage> {
        let Some(file) = self.job.placement.hosts.get() else { return Ok(()) };
        for program in &mut self.programs {
            let by = program.local.hosts.by().to_owned();
            let Some(hosts) = program.local.hosts.get_mut() else { continue };
            for host in hosts {
                let mut lines = file.iter().filter(|line| line.host == host.host).peekable();
                if lines.peek().is_none() {
                    let text = format!("{by}: {} is not in the host file", host.host);
                    return Err(Usage::new(text));
                }
                if is_plain(&host.host) {
                    let sum = lines.try_fold(0, |sum: u32, line| sum.checked_add(line.ncpus?));
                    host.ncpus = sum.or(host.ncpus);
                }
            }
        }
        Ok(())
    }

    /// Whether any section has a program.
    pub fn has_programs(&self) -> bool {
        !self.programs.is_empty()
    }

    /// The hosts that options name, in order; `None` if no option names hosts. `all` is an option
    /// that names no host.
    fn named_hosts(&self) -> Option<Vec<HostEntry>> {
        let of_programs = self.programs.iter().map(|p| p.local.hosts.or(&self.defaults.hosts));
        let lists =
            std::iter::once(&self.job.placement.hosts).chain(of_programs).filter_map(Once::get);
        lists.fold(None, |all, list| Some([all.unwrap_or_default(), list.clone()].concat()))
    }

    /// The specification of the job, and the hosts of a private ring for it.
    pub fn finish(&self) -> Result<(JobSpec, Demand), Usage> {
        if self.programs.is_empty() {
            return Err(Usage::syntax("there is no program to run"));
        }
        if let Some(by) = self.complement.as_ref().filter(|_| self.programs.len() > 1) {
            let text = format!("{by}: a complement holds for all programs; use -exclude");
            return Err(Usage::syntax(text));
        }
        let named = self.named_hosts();
        let held = self.held()?;
        let mut allocation = match (&named, &held) {
            (Some(_), _) => None,
            (None, Some(held)) => Some(Allocation { hosts: held.hosts.clone() }),
            (None, None) => Allocation::find(self.caller)?,
        };
        let chosen = self.chosen(named.as_deref(), allocation.as_ref())?;
        let most = self.default_processes(allocation.as_ref(), chosen.as_deref())?;
        if held.is_some() {
            // These are hosts of the ring, and no hosts for a private one.
            allocation = None;
        }
        let launcher = self.job.placement.launcher(allocation::is_within_srun(self.caller));
        let (mut spec, chosen) = self.spec(most, chosen)?;
        let mut named = named.unwrap_or_default();
        if allocation.is_none() {
            let is_new = |host: &HostEntry| named.iter().all(|known| known.host != host.host);
            let new: Vec<HostEntry> =
                chosen.iter().flatten().filter(|h| is_new(h)).cloned().collect();
            named.extend(new);
        }
        let mut demand = Demand::new(named, self.job.placement.excluded(), allocation, launcher);
        if chosen.is_some() {
            demand.allocated.clear();
        }
        demand.refusal = self.job.placement.refusal(&demand.hosts);
        slots::note(held.as_ref(), &mut spec);
        held.map_or(Ok(()), |held| held.restrict(&mut spec))?;
        if self.job.placement.is_by_load()? {
            self.place_by_load(&mut spec)?;
        }
        Ok((spec, demand))
    }

    /// Chooses the hosts by load, each with the number of its ranks.
    fn place_by_load(&self, spec: &mut JobSpec) -> Result<(), Usage> {
        if spec.argsets.iter().any(|argset| argset.hosts.is_some()) {
            return Err(Usage::syntax("-placement load and -host contradict each other"));
        }
        let loaded = (self.caller.loaded)(&self.job.ring_options);
        let failed = |e: String| Usage::new(format!("-placement load: {e}"));
        let Surroundings { members, here, .. } = loaded.map_err(failed)?;
        let hosts = by_load(spec.size(), &spec.placement, &members, &here);
        spec.placement.hosts = hosts.map_err(|e| failed(e.to_string()))?;
        Ok(())
    }

    /// The slots of the allocation that an option or a variable names.
    fn held(&self) -> Result<Option<Held>, Usage> {
        let Some((alloc, by)) = self.allocation() else { return Ok(None) };
        let held = (self.caller.held)(&self.job.ring_options, &alloc);
        let held = held.map_err(|e| Usage::new(format!("{by}: {e}")))?;
        held.in_processes_of(self.job.placement.width()).map(Some)
    }

    /// The name of an allocation, and where it was given.
    fn allocation(&self) -> Option<(String, &'static str)> {
        if let Some(alloc) = self.job.placement.slots.alloc.get() {
            return Some((alloc.clone(), "-alloc"));
        }
        let name = self.caller.variable(slots::VARIABLE.as_bytes())?;
        let name = String::from_utf8_lossy(name).into_owned();
        (!name.is_empty() && !self.attaches).then_some((name, slots::VARIABLE))
    }

    /// The slots for which the job waits first; `None` if it does not wait.
    pub fn wait(&self, spec: &JobSpec) -> Result<Option<Wait>, Usage> {
        let slots = &self.job.placement.slots;
        if slots.now && !slots.wait {
            return Err(Usage::syntax("-now needs -wait".to_owned()));
        }
        let waits = slots.wait && self.allocation().is_none();
        waits.then(|| Wait::of(spec, slots.now)).transpose()
    }

    /// The hosts that the user chooses by number or for each rank, in the order in which ranks use them.
    fn chosen(
        &self,
        named: Option<&[HostEntry]>,
        allocation: Option<&Allocation>,
    ) -> Result<Option<Vec<HostEntry>>, Usage> {
        let placement = &self.job.placement;
        let Some(by) = placement.choice()? else { return Ok(None) };
        let locals = std::iter::once(&self.defaults).chain(self.programs.iter().map(|p| &p.local));
        let mut own = locals.map(|local| &local.hosts).filter(|hosts| hosts.get().is_some());
        let may_have_own = self.programs.len() == 1 || placement.has_rank_file();
        if let Some(own) = own.next().filter(|_| !may_have_own) {
            let text = format!("{by} and {} contradict each other", own.by());
            return Err(Usage::syntax(text));
        }
        let entry = |name: &str, slots| HostEntry::named(name.to_owned(), slots);
        let all: Vec<HostEntry> = match (named, allocation) {
            (Some(named), _) if !named.is_empty() => named.to_vec(),
            (_, Some(allocation)) => {
                allocation.hosts.iter().map(|host| entry(&host.name, host.slots)).collect()
            }
            _ => {
                let survey = (self.caller.survey)(&self.job.ring_options, &[]);
                let mut members = survey.map_err(Usage::new)?.in_ring_order();
                members.retain(|member| !placement.excluded().contains(&member.host));
                members
            }
        };
        placement.chosen(&all).map(Some)
    }

    /// The number of processes of a program without `-n`: as many as the hosts take that an option
    /// or a batch system names. If several programs have no number, each gets one process.
    fn default_processes(
        &self,
        allocation: Option<&Allocation>,
        chosen: Option<&[HostEntry]>,
    ) -> Result<u32, Usage> {
        let [program] = &self.programs[..] else { return Ok(1) };
        if program.local.processes.or(&self.defaults.processes).get().is_some() {
            return Ok(1);
        }
        if let Some(chosen) = chosen {
            return Ok(hosts::room(chosen, &[], None));
        }
        let each = self.job.placement.of_each_host();
        let own = program.local.hosts.or(&self.defaults.hosts);
        match (own.get().or(self.job.placement.hosts.get()), each) {
            // `-hosts all` was given.
            (Some(hosts), Some(each)) if hosts.is_empty() => self.everywhere(each),
            (Some(hosts), _) => Ok(hosts::room(hosts, self.job.placement.excluded(), each)),
            (None, Some(each)) => {
                let hosts = allocation.map_or(1, |allocation| allocation.hosts.len());
                Ok(each.saturating_mul(u32::try_from(hosts).unwrap_or(u32::MAX)))
            }
            (None, None) => {
                let slots = allocation.and_then(Allocation::slots);
                Ok(slots.or_else(|| self.cores_here()).unwrap_or(1))
            }
        }
    }

    /// The number of processes without `-n` and hosts, if the launcher starts one for each core of this host.
    fn cores_here(&self) -> Option<u32> {
        self.dialect.filter(|dialect| dialect.is_open_mpi())?;
        if self.slots.is_some() {
            return self.slots;
        }
        let cpus = (self.caller.cpus)();
        let cores: BTreeSet<(u32, u32)> = cpus.iter().map(|cpu| (cpu.node, cpu.core)).collect();
        u32::try_from(cores.len()).ok().filter(|&count| count > 0)
    }

    /// The number of processes that the whole ring takes.
    fn everywhere(&self, each: u32) -> Result<u32, Usage> {
        if !self.job.placement.excluded().is_empty() {
            let text = "without -n the job uses every host of the ring; use -n to leave hosts out";
            return Err(Usage::syntax(text));
        }
        Ok((self.caller.ring)(&self.job.ring_options).hosts.saturating_mul(each))
    }

    /// The specification, and those of the `chosen` hosts that get ranks.
    fn spec(
        &self,
        most: u32,
        mut chosen: Option<Vec<HostEntry>>,
    ) -> Result<(JobSpec, Option<Vec<HostEntry>>), Usage> {
        let mut environments = Environments::default();
        let mut argsets = Vec::with_capacity(self.programs.len());
        for program in &self.programs {
            let argset = self.argset(program, most, &mut environments);
            argsets.push(argset.map_err(|e| e.at(program.origin.as_ref()))?);
        }
        let mut argsets = self.job.tools.apply(argsets);
        let size = argsets.iter().map(|a| u64::from(a.size)).sum::<u64>();
        let mut placement = self.job.placement.placement();
        if let Some(chosen) = &mut chosen {
            self.keep_used_lines(size, &argsets, chosen, &mut placement.cpus.lists)?;
            placement.hosts = hosts::choices(&chosen::joined(chosen));
            argsets.iter_mut().for_each(|argset| argset.hosts = None);
        }
        let spec = JobSpec {
            argsets,
            environments: environments.distinct,
            alias: self.job.alias(),
            tmpdir: self.tmpdir(),
            stdin: self.job.stdin(),
            stdin_switch: self.job.switches_stdin(),
            output: self.job.output.spec()?,
            on_failure: self.job.reports.on_failure(),
            elastic: self.job.reports.is_elastic(),
            abort_scope: self.job.reports.abort_scope(),
            timeout: self.job.timeout(),
            universe_size: match self.job.universe.get() {
                None => None,
                Some(Universe::Infinite) => Some(0),
                Some(&Universe::Size(size)) => Some(size),
                // A universe cannot be smaller than the first world.
                Some(Universe::System) => Some(
                    (self.caller.ring)(&self.job.ring_options)
                        .cpus
                        .max(u32::try_from(size).unwrap_or(u32::MAX)),
                ),
            },
            memory_kinds: self.job.memory_kinds(),
            report_ends: self.job.reports.exits().any(),
            trace: self.job.reports.trace().any(),
            placement,
            spawn: self.job.placement.spawn(),
            on_crash: self.job.crash.spec(),
            closed: self.caller.closed,
            niceness: self.caller.niceness,
            host_timeout: self.job.host_timeout(),
            allowance: self.job.allowance(),
            record: self
                .job
                .reports
                .record()
                .map(|directory| absolute(&self.caller.directory, directory)),
            ..self.job.switches.clone()
        };
        match spec.check() {
            Ok(()) => Ok((spec, chosen)),
            Err(
                misfit @ (Misfit::Groups { .. }
                | Misfit::Lists
                | Misfit::OutputRank(..)
                | Misfit::StdinRank(..)
                | Misfit::TooManyRanks(_)),
            ) => Err(Usage::syntax(misfit.to_string())),
            Err(misfit) => Err(Usage::new(misfit.to_string())),
        }
    }

    /// Keeps the lines of a rank file that the job uses, and checks them.
    fn keep_used_lines(
        &self,
        size: u64,
        argsets: &[Argset],
        chosen: &mut Vec<HostEntry>,
        cpus: &mut Vec<CpuChoice>,
    ) -> Result<(), Usage> {
        let placement = &self.job.placement;
        let Some(used) = placement.ranks_of_file(size)? else { return Ok(()) };
        chosen.truncate(used);
        cpus.truncate(used);
        chosen::check_hosts_of_programs(placement.choice()?.unwrap_or_default(), argsets, chosen)
    }

    /// The directory in which the job's own directory is made.
    fn tmpdir(&self) -> Bytes {
        let option = self.job.tmpdir.get().map(|dir| dir.as_os_str().as_bytes());
        match option.or(self.caller.variable(b"TMPDIR")) {
            None | Some(b"") => b"/tmp".to_vec(),
            Some(dir) => absolute(&self.caller.directory, OsStr::from_bytes(dir)),
        }
    }

    /// The specification of one program; `most` is its number of processes without `-n`.
    fn argset(
        &self,
        program: &Program,
        most: u32,
        environments: &mut Environments,
    ) -> Result<Argset, Usage> {
        let (own, all) = (&program.local, &self.defaults);
        let caller = self.caller;
        let [name, args @ ..] = &program.words[..] else {
            return Err(Usage::syntax("there is no program to run"));
        };
        if self.job.switches.preload && mpd_wire::job::names_architecture(name.as_bytes()) {
            let name = name.to_string_lossy();
            return Err(Usage::new(format!("-preload and %a contradict each other: {name}")));
        }
        let substitute = own.substitute || all.substitute;
        let mut variables =
            environment::assemble(&caller.environment, &all.environment, &own.environment)?;
        let chosen = own.directory.or(&all.directory);
        let directory = match chosen.get() {
            Some(directory) => absolute(&caller.directory, directory),
            None => caller.directory.clone().into_os_string().into_vec(),
        };
        let mut set = all.environment.assigned().chain(own.environment.assigned());
        if chosen.get().is_some() && !set.any(|(name, _)| name == b"PWD") {
            environment::enter(&mut variables, &directory);
        }
        let mut limits = caller.limits.clone();
        for (change, by) in all.limits.iter().chain(&own.limits) {
            change.apply(&mut limits).map_err(|e| Usage::new(format!("{by}: {e}")))?;
        }
        Ok(Argset {
            size: own.size(all, most)?,
            program: name.clone().into_vec(),
            args: arguments(args, substitute)?,
            substitute,
            search: search(caller, own.path.or(&all.path).get(), &variables),
            environment: environments.index(variables),
            directory,
            umask: own.umask.or(&all.umask).get().copied().unwrap_or(caller.umask),
            limits,
            hosts: own.hosts.or(&all.hosts).get().map(|entries| hosts::choices(entries)),
            pty: (own.pty || all.pty).then(caller.terminal),
        })
    }
}

/// The different environments of a job, each stored once.
#[derive(Default)]
struct Environments {
    distinct: Vec<Vec<Bytes>>,
}

impl Environments {
    fn index(&mut self, variables: Variables) -> u32 {
        // Neighbouring programs often share an environment, so the search starts at the last one.
        let at = self.distinct.iter().rposition(|known| *known == variables).unwrap_or_else(|| {
            self.distinct.push(variables);
            self.distinct.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }
}

/// The arguments of a program. With `substitute` they are patterns, which are checked here.
fn arguments(args: &[OsString], substitute: bool) -> Result<Vec<Bytes>, Usage> {
    let args = args.iter().map(|arg| match ArgumentFormat::new(arg.as_bytes()) {
        Err(field) if substitute => {
            let known = "-subst knows %r rank, %l rank on its host, %h host, %j job id, %s ranks, %% percent sign";
            let problem = match field {
                Some(field) => format!("there is no field %{field}"),
                None => "the % at the end has no letter".to_owned(),
            };
            Err(Usage::syntax(format!("argument {:?}: {problem}; {known}", arg.to_string_lossy())))
        }
        _ => Ok(arg.clone().into_vec()),
    });
    args.collect()
}

fn search(caller: &Caller, path: Option<&OsString>, variables: &Variables) -> Bytes {
    let inherited = environment::value_of(variables, b"PATH").unwrap_or(DEFAULT_SEARCH).to_vec();
    match path {
        None => inherited,
        Some(path) => {
            // Relative directories are completed here, because the working directory of ranks may
            // differ.
            let dirs = path.as_bytes().split(|&b| b == b':').map(OsStr::from_bytes);
            let mut dirs: Vec<Bytes> = dirs.map(|d| absolute(&caller.directory, d)).collect();
            dirs.push(inherited);
            dirs.join(&b':')
        }
    }
}

fn without_program(setting: &Setting) -> Usage {
    let all = setting.opt.names.iter().find_map(|name| {
        let global = format!("g{name}");
        crate::options::find(global.as_bytes()).filter(|o| o.reach == Reach::Defaults)
    });
    Usage::syntax(match all {
        Some(opt) => {
            format!("{setting} has no program after it; for all programs it is -{}", opt.names[0])
        }
        None => format!("{setting} has no program after it"),
    })
}
