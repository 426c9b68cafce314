//! What every picture says of a run: the machine, the versions, the command, the warnings.

use super::text::shell_word;
use keyrack_record::{Run, distinct};

/// The small print of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// What the run is called where there are several.
    pub name: String,
    /// Processor, number of CPUs, version of the program, time.
    pub machine: String,
    /// The engines with their versions.
    pub engines: String,
    /// The command line, as a shell takes it.
    pub command: String,
    /// What a reader must know before believing the numbers.
    pub warnings: Vec<String>,
}

impl Heading {
    pub(crate) fn of(run: &Run, name: String) -> Heading {
        let mut machine: Vec<String> = Vec::new();
        machine.extend(system(run, "cpu").map(str::to_owned));
        machine.extend(system(run, "cpu_cores").map(|cores| format!("{cores} CPUs")));
        machine.push(format!("keyrack {}", run.header.version));
        machine.push(run.header.started.clone());
        let engines = distinct(run.points.iter().map(|point| point.engine_version.as_str()));
        let words: Vec<String> = run.header.argv.iter().map(|word| shell_word(word)).collect();
        let mut warnings = run.header.warnings.clone();
        warnings.extend(run.interrupted.iter().map(|reason| format!("partial results: {reason}")));
        Heading {
            name,
            machine: machine.join(", "),
            engines: engines.join(", "),
            command: words.join(" "),
            warnings,
        }
    }
}

/// A field of the system probe, where it is known.
pub(crate) fn system<'a>(run: &'a Run, name: &str) -> Option<&'a str> {
    let mut probes = run.probes.iter().filter(|probe| probe.name == "system");
    let mut fields = probes.by_ref().flat_map(|probe| &probe.fields);
    let value = fields.find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    value.filter(|value| *value != "n/a")
}
