//! The timeline sink: samples in long format, one metric a row, tab separated.
//!
//! Columns: `workload engine threads sweep_param sweep_value phase elapsed_s metric value repeat
//! rate script_phase role`. The first nine are those of keybench; the others come last, so that
//! readers of the nine go on working. `engine` is the engine's own name with its version. Values
//! have three decimals. `rate` tells the cells of `--rate R1,R2` apart and is empty in a closed
//! loop; `script_phase` and `role` are empty where the script declares no phases, and `role` in the
//! rows of a whole phase.

use super::Sink;
use super::text::{escape, sweep_columns};
use keyrack_record::{Header, Point, Run, TimelineRow};
use std::io::{self, Write};

const COLUMNS: &str = "workload\tengine\tthreads\tsweep_param\tsweep_value\tphase\telapsed_s\t\
                       metric\tvalue\trepeat\trate\tscript_phase\trole";

/// See the module.
pub(super) struct Timeline {
    pub(super) out: Box<dyn Write>,
    /// Bits of the moment whose rows are being written: a new moment flushes the last one.
    pub(super) moment: Option<u64>,
}

impl Sink for Timeline {
    fn begin(&mut self, _: &Header) -> io::Result<()> {
        writeln!(self.out, "{COLUMNS}")?;
        self.out.flush()
    }

    fn row(&mut self, row: &TimelineRow) -> io::Result<()> {
        let moment = row.elapsed_s.to_bits();
        if self.moment.is_some_and(|last| last != moment) {
            self.out.flush()?;
        }
        self.moment = Some(moment);
        let (param, value) = sweep_columns(row.cell.sweep.as_ref());
        let rate = row.cell.rate.map(|rate| format!("{rate:.1}")).unwrap_or_default();
        let part = row.cell.part.as_ref();
        let script_phase = part.map(|part| escape(&part.phase)).unwrap_or_default();
        let role = row.cell.role().map(escape).unwrap_or_default();
        writeln!(
            self.out,
            "{}\t{}\t{}\t{param}\t{value}\t{}\t{:.3}\t{}\t{:.3}\t{}\t{rate}\t\
             {script_phase}\t{role}",
            escape(&row.cell.workload),
            escape(&row.engine_version),
            row.cell.threads,
            row.phase,
            row.elapsed_s,
            escape(&row.metric),
            row.value,
            row.repeat,
        )
    }

    fn point(&mut self, _: &Point, _: &Header) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self, _: &Run) -> io::Result<()> {
        self.out.flush()
    }
}
