//! `keyrack bench`: from flags and files to a plan, and the run with its outputs and exit status.

use crate::progress::Progress;
use crate::watch::Watch;
use crate::{bundled, engines, flags, modes};
use clap::ArgMatches;
use keyrack_calendar as calendar;
use keyrack_compat::BenchStyle;
use keyrack_console::say;
use keyrack_harness::probe::LinuxHost;
use keyrack_harness::sink::Dialect;
use keyrack_harness::{
    Bound, Facts, MemLimit, Outputs, Pin, Plan, Print, Settings, Stop, Surroundings, apply_config,
    render_replay,
};
use keyrack_measure::Clock;
use keyrack_record::Run;
use keyrack_vfs::{Fs, RealFs};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How `keyrack bench` presents itself.
pub(crate) const KEYRACK: BenchStyle = BenchStyle {
    program: "keyrack",
    dialect: Dialect::Keyrack,
    default_backend: None,
    default_workload: true,
    default_pin: Pin::Auto,
};

/// Runs the command. An error is a refusal: nothing was measured.
pub(crate) fn run(matches: &ArgMatches, argv: &[String], style: &BenchStyle) -> Result<u8, String> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    if matches.get_flag("list") {
        return modes::list();
    }
    let settings = settings(matches, &*fs, style)?;
    if matches.get_flag("selftest") {
        return modes::selftest(&settings, &flags::pairs(matches), &fs);
    }
    if matches.get_flag("overhead") {
        return modes::overhead(settings, surroundings(&fs, argv, style.program));
    }
    // Until a plan stands a signal ends the process as any other: nothing has been written.
    let plan =
        Plan::new(settings, surroundings(&fs, argv, style.program)).map_err(|refusal| refusal.0)?;
    let limit = plan.settings.mem_limit;
    let _limit = limit
        .map(|bytes| MemLimit::enter(bytes, std::process::id(), &LinuxHost, &*fs))
        .transpose()?;
    let stop = Stop::default();
    keyrack_console::set_on_signals(&stop.flag)?;
    let watch = matches.get_one::<String>("watch").map(|place| Watch::start(place)).transpose()?;
    let save = matches.get_one::<String>("save-config").map(PathBuf::from);
    let mut progress = if matches.get_flag("tui") {
        Progress::on_a_screen(style.dialect, &stop)?
    } else {
        Progress::new(plan.settings.progress, style.dialect)
    }
    .watched(watch);
    for note in plan.warnings.iter().map(|w| format!("warning: {w}")).chain(plan.notes.clone()) {
        keyrack_console::refuse(style.program, &note);
    }
    measure(&plan, &fs, style, save, &mut progress, &stop)
}

/// Opens the outputs, runs the plan, and turns what came of it into an exit status.
fn measure(
    plan: &Plan,
    fs: &Arc<dyn Fs>,
    style: &BenchStyle,
    save: Option<PathBuf>,
    progress: &mut Progress,
    stop: &Stop,
) -> Result<u8, String> {
    let mut specs = plan.sinks.clone();
    let report_dir = match &plan.settings.report_dir {
        Some(base) => {
            let dir = stamped_dir(&**fs, base)?;
            keyrack_console::refuse(
                style.program,
                &format!("writing reports to {}/", dir.display()),
            );
            specs.extend(Outputs::report_files(&dir));
            Some(dir)
        }
        None => None,
    };
    // --report-dir keeps the replay file beside its reports and overrides --save-config.
    let replay = report_dir.as_ref().map(|dir| dir.join("replay.cnf")).or(save);
    if let Some(path) = &replay {
        let text = render_replay(plan);
        keyrack_vfs::write_output(fs, path, text.as_bytes()).map_err(|error| error.to_string())?;
        if report_dir.is_none() {
            keyrack_console::refuse(
                style.program,
                &format!("wrote replay file {}", path.display()),
            );
        }
    }
    let stdout = || -> Box<dyn Write> { Box::new(keyrack_console::Stdout) };
    let mut outputs = Outputs::open(&specs, fs, &stdout, style.dialect, plan.settings.seed)?;
    let result = keyrack_harness::run(plan, &mut outputs, progress, stop);
    progress.close();
    for line in outputs.said() {
        say!("{line}");
    }
    match result {
        Ok(record) => {
            if let Some(dir) = &report_dir {
                modes::plot(plan, &record, fs, dir, style.program);
            }
            Ok(status(&record, stop, style.program))
        }
        // A reader that went away, such as `head`, has all it wanted.
        Err(_) if outputs.is_reader_gone() => Ok(keyrack_console::DONE),
        Err(message) => {
            keyrack_console::refuse(style.program, &message);
            Ok(keyrack_console::NO)
        }
    }
}

fn status(record: &Run, stop: &Stop, program: &str) -> u8 {
    match (&record.interrupted, stop.reason()) {
        (Some(_), Some(reason)) => {
            keyrack_console::refuse(
                program,
                &format!("stopped: {reason}; partial results were written"),
            );
            keyrack_console::NO
        }
        (Some(_), None) => {
            keyrack_console::refuse(program, "interrupted; partial results were written");
            keyrack_console::INTERRUPTED
        }
        (None, _) if record.is_clean() => keyrack_console::DONE,
        (None, _) => keyrack_console::NO,
    }
}

/// Defaults, then the file, then the flags.
fn settings(matches: &ArgMatches, fs: &dyn Fs, style: &BenchStyle) -> Result<Settings, String> {
    let mut settings = Settings { pin: style.default_pin, ..Settings::default() };
    let mut bounded = false;
    if let Some(path) = matches.get_one::<String>("config") {
        let text = fs.read_to_string(Path::new(path));
        let text =
            text.map_err(|error| format!("cannot open config '{path}': {}", error.cause()))?;
        apply_config(&mut settings, path, &text)?;
        bounded = true;
    }
    for (engine, path) in flags::libraries(matches) {
        let section = settings.engine_options.entry(engine.to_owned()).or_default();
        section.push(("lib".to_owned(), path));
    }
    let pairs = flags::pairs(matches);
    // A workload that is named again is read again; the text that a replay file saved is for those
    // that the file names.
    for (_, source) in pairs.iter().filter(|(key, _)| key == "workload") {
        settings.saved_scripts.remove(source);
    }
    settings.apply(&pairs, &|key| match key {
        "workload" => "WORKLOAD".to_owned(),
        key => format!("--{key}"),
    })?;
    settings.let_flags_win(&pairs);
    bounded |= pairs.iter().any(|(key, _)| key == "ops" || key == "secs");
    if settings.backend.is_empty()
        && let Some(backend) = style.default_backend
    {
        settings.backend = vec![backend.to_owned()];
    }
    if settings.workloads.is_empty() && settings.replay.is_none() && style.default_workload {
        settings.workloads = vec![bundled::DEFAULT.to_owned()];
        if !bounded {
            settings.bound = Bound::Secs(5.0);
        }
    }
    Ok(settings)
}

pub(crate) fn surroundings(fs: &Arc<dyn Fs>, argv: &[String], program: &str) -> Surroundings {
    Surroundings {
        registry: engines::registry(),
        fs: Arc::clone(fs),
        facts: Facts {
            program: program.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: option_env!("KEYRACK_REVISION").map(str::to_owned),
            argv: argv.to_vec(),
            compiler: format!("rustc {}", env!("CARGO_PKG_RUST_VERSION")),
            allocator: crate::allocator::name(),
        },
        clock: Clock::calibrated(),
        print: Some(Print(Arc::new(|line| say!("{line}")))),
        bundled: bundled::SCRIPTS,
    }
}

/// Makes `base/<time>`, or `base/<time>-2` when two runs begin in one second.
fn stamped_dir(fs: &dyn Fs, base: &Path) -> Result<PathBuf, String> {
    fs.create_dir_all(base).map_err(|error| error.to_string())?;
    let stamp = calendar::local_stamp();
    for attempt in 1..1000 {
        let name = if attempt == 1 { stamp.clone() } else { format!("{stamp}-{attempt}") };
        let dir = base.join(name);
        match fs.create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("{}: a thousand reports in one second", base.display()))
}
