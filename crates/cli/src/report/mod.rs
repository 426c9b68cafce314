//! `keyrack report`: recorded runs as pictures, as a page, or set against each other.
//!
//! ```text
//!   keyrack report plot DIR... --format svg,png,pdf --out figures
//!   keyrack report html DIR... --out report.html
//!   keyrack report compare BASE NEW          the same as keyrack compare
//! ```
//!
//! A `DIR` is what `--report-dir` was given (its newest report counts), one report in it, or a JSON
//! file. Samples are read from `timeline.tsv` beside the record, where it is.

use crate::compare;
use clap::{Arg, ArgMatches, Command};
use keyrack_console::say;
use keyrack_record::Run;
use keyrack_report::{
    Charts, Format, Palette, Recorded, Theme, Timeline, gnuplot_script, html_page, load,
};
use keyrack_vfs::{Fs, OutputFile, RealFs, write_output};
use keyrack_workload::Rng;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RUNS_MAX: usize = 64;

fn runs() -> Arg {
    Arg::new("run")
        .value_name("DIR")
        .required(true)
        .num_args(1..)
        .help("Reports of --report-dir, or JSON files of --report json:FILE")
}

fn palette_arg() -> Arg {
    Arg::new("palette").long("palette").value_name("FILE").help(
        "Looks of engines, a line each: NAME #LIGHT #DARK SHAPE, or NAME=#COLOR (the file that \
         BACKENDPALETTE in the environment names)",
    )
}

fn out(default: &'static str, help: &'static str) -> Arg {
    Arg::new("out").long("out").value_name("PATH").default_value(default).help(help)
}

/// Adds the options of `keyrack report plot` to a command.
pub(crate) fn with_plot(command: Command) -> Command {
    command
        .about("Draw every figure of the runs, one file each")
        .long_about(
            "Draw every figure of the runs, one file each. Of several runs the first is what the \
             others are compared with. No other program and no font of the machine is needed.",
        )
        .arg(runs())
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("LIST")
                .default_value("svg")
                .help("svg, png or pdf, or several with commas"),
        )
        .arg(
            Arg::new("theme")
                .long("theme")
                .value_name("NAME")
                .default_value("light")
                .help("light: on white, as for print; dark: as for a dark screen"),
        )
        .arg(out("figures", "The directory of the figures"))
        .arg(palette_arg())
}

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("report")
        .about("Draw recorded runs: pictures, a page for a browser, comparisons")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(with_plot(Command::new("plot")))
        .subcommand(
            Command::new("html")
                .about("Write one page with all charts and tables, which needs no other file")
                .arg(runs())
                .arg(out("report.html", "The file of the page"))
                .arg(palette_arg()),
        )
        .subcommand(compare::command())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, String> {
    match matches.subcommand() {
        Some(("plot", matches)) => plot(matches),
        Some(("html", matches)) => html(matches),
        Some(("compare", matches)) => compare::run(matches),
        _ => Err("no such command; see keyrack report --help".to_owned()),
    }
}

fn formats(list: &str) -> Result<Vec<Format>, String> {
    let mut formats = Vec::new();
    for name in list.split(',').map(str::trim) {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        let found = Format::ALL.iter().find(|format| format.name() == name);
        let format = found.ok_or_else(|| {
            format!("--format: {}", keyrack_store::unknown("format", name, &names))
        })?;
        if !formats.contains(format) {
            formats.push(*format);
        }
    }
    Ok(formats)
}

fn theme(name: &str) -> Result<Theme, String> {
    let names: Vec<&str> = Theme::ALL.iter().map(|theme| theme.name()).collect();
    let found = Theme::ALL.iter().find(|theme| theme.name() == name);
    found
        .copied()
        .ok_or_else(|| format!("--theme: {}", keyrack_store::unknown("theme", name, &names)))
}

/// Draws the figures that the options of [`with_plot`] ask for.
pub(crate) fn plot(matches: &ArgMatches) -> Result<u8, String> {
    let formats = formats(word(matches, "format"))?;
    let theme = theme(word(matches, "theme"))?;
    let palette = palette(matches.get_one("palette"))?;
    let runs = recorded(matches)?;
    let out = PathBuf::from(word(matches, "out"));
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    fs.create_dir_all(&out).map_err(|error| error.to_string())?;
    let charts = Charts::of(&runs, &palette, &mut draws(&runs[0].run));
    let mut count = 0;
    for format in formats {
        count += write(&fs, &charts, format, theme, &out)?;
    }
    say!("keyrack: drew {count} figures in {}/", out.display());
    Ok(keyrack_console::DONE)
}

fn html(matches: &ArgMatches) -> Result<u8, String> {
    let palette = palette(matches.get_one("palette"))?;
    let runs = recorded(matches)?;
    let out = PathBuf::from(word(matches, "out"));
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let mut output = OutputFile::whole(&fs, &out).map_err(|error| error.to_string())?;
    let page = html_page(&runs, &palette, || draws(&runs[0].run));
    let written = output.append(page.as_bytes()).and_then(|()| output.finish());
    written.map_err(|error| error.to_string())?;
    say!("keyrack: wrote {} ({} KiB)", out.display(), page.len().div_ceil(1024));
    Ok(keyrack_console::DONE)
}

/// Figures, page and gnuplot script in the directory of a report that was just written. Gives the
/// number of figures.
pub(crate) fn beside(
    record: &Run,
    fs: &Arc<dyn Fs>,
    dir: &Path,
    format: Format,
) -> Result<usize, String> {
    if record.points.is_empty() {
        return Err("no cell was measured".to_owned());
    }
    let name = dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let timeline = timeline(&**fs, dir)?;
    let palette = palette(None)?;
    let text = |error: keyrack_vfs::Error| error.to_string();
    // As whoever draws it later finds it: what is written down has fewer digits.
    let path = dir.join("run.json");
    let written = fs.read_to_string(&path).map_err(text)?;
    let record = &load(&path.display().to_string(), &written).map_err(|error| error.to_string())?;
    let runs = [Recorded { name, run: record.clone(), timeline }];
    write_output(fs, &dir.join("plot.gp"), gnuplot_script(record).as_bytes()).map_err(text)?;
    let page = html_page(&runs, &palette, || draws(record));
    write_output(fs, &dir.join("report.html"), page.as_bytes()).map_err(text)?;
    let figures = dir.join("figures");
    fs.create_dir_all(&figures).map_err(text)?;
    let charts = Charts::of(&runs, &palette, &mut draws(record));
    write(fs, &charts, format, Theme::Light, &figures)
}

/// Writes each figure; gives their number.
fn write(
    fs: &Arc<dyn Fs>,
    charts: &Charts,
    format: Format,
    theme: Theme,
    out: &Path,
) -> Result<usize, String> {
    let mut count = 0;
    for (name, bytes) in charts.pictures(format, theme) {
        let path = out.join(format!("{name}.{}", format.name()));
        write_output(fs, &path, &bytes).map_err(|error| error.to_string())?;
        count += 1;
    }
    Ok(count)
}

fn word<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).map_or("", String::as_str)
}

/// The file of the palette, where no option names one: that of keybench.
const PALETTE_VARIABLE: &str = "BACKENDPALETTE";

/// The palette in the file that was given, or in the one that the environment names.
fn palette(given: Option<&String>) -> Result<Palette, String> {
    let variable = std::env::var(PALETTE_VARIABLE).ok().filter(|path| !path.is_empty());
    let Some(path) = given.or(variable.as_ref()) else { return Ok(Palette::default()) };
    let text = RealFs.read_to_string(Path::new(path)).map_err(|error| error.to_string())?;
    Palette::parse(path, &text).map_err(|error| error.to_string())
}

/// The draws of the bootstrap: those of the first run's seed, so that a report can be made again.
fn draws(run: &Run) -> impl FnMut() -> u64 + use<> {
    let mut rng = Rng::from_seed(run.header.seed);
    move || rng.next_u64()
}

/// The runs that are named, each with its samples.
fn recorded(matches: &ArgMatches) -> Result<Vec<Recorded>, String> {
    let given: Vec<&String> = matches.get_many::<String>("run").into_iter().flatten().collect();
    if given.len() > RUNS_MAX {
        return Err(format!("{} runs are more than {RUNS_MAX} in one report", given.len()));
    }
    let mut runs: Vec<Recorded> = Vec::new();
    for given in given {
        let path = compare::run_file(Path::new(given))?;
        let text = RealFs.read_to_string(&path).map_err(|error| error.to_string())?;
        let run = load(&path.display().to_string(), &text).map_err(|error| error.to_string())?;
        let dir = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let mut name = name(&path, dir);
        let stem = name.clone();
        let mut number = 2;
        while runs.iter().any(|other| other.name == name) {
            name = format!("{stem}-{number}");
            number += 1;
        }
        runs.push(Recorded { name, run, timeline: timeline(&RealFs, dir)? });
    }
    Ok(runs)
}

/// What a run is called: its file's name, or its directory's where the file is `run.json`.
fn name(path: &Path, dir: &Path) -> String {
    let of_file = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let of_dir = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_usual = path.file_name().is_some_and(|name| name == "run.json");
    let name = if is_usual { of_dir.or(of_file) } else { of_file };
    name.unwrap_or_else(|| "run".to_owned())
}

fn timeline(fs: &dyn Fs, dir: &Path) -> Result<Timeline, String> {
    let path = dir.join("timeline.tsv");
    if !fs.exists(&path).map_err(|error| error.to_string())? {
        return Ok(Timeline::default());
    }
    let text = fs.read_to_string(&path).map_err(|error| error.to_string())?;
    Timeline::parse(&path.display().to_string(), &text).map_err(|error| error.to_string())
}
