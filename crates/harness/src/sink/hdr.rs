//! The HDR sink: every histogram of the run as an HdrHistogram log, for tools that read those.
//!
//! One line per point, repeat and verb, in nanoseconds. The tag tells the lines apart:
//!
//! ```text
//!   workload/engine/t4[/param=value][/rate=1000]/get
//!   workload/engine/t4/rate=1000/unit_response       open loop: whole units
//!   workload/engine/t4/rate=1000/unit_service
//! ```
//!
//! Where the workload declares phases, `/phase` or `/phase/role` stands behind the threads.
//!
//! Repeats of a cell share a tag and differ in their start, so that a reader that merges a tag
//! over time merges repeats. Words of a tag hold no comma, slash or blank: those become `_`. The
//! start of a line counts from the header's `started`.

use super::Sink;
use super::text::tag_word;
use keyrack_calendar as calendar;
use keyrack_hdr as hdr;
use keyrack_measure::Histogram;
use keyrack_record::{Cell, Header, Point, Repeat, Run};
use std::io::{self, Write};

/// See the module.
pub(super) struct Hdr {
    pub(super) out: Box<dyn Write>,
}

impl Hdr {
    fn line(&mut self, tag: &str, repeat: &Repeat, histogram: &Histogram) -> io::Result<()> {
        let line = hdr::log_line(tag, repeat.started_s, repeat.wall_s, histogram);
        self.out.write_all(line.as_bytes())
    }
}

impl Sink for Hdr {
    fn begin(&mut self, header: &Header) -> io::Result<()> {
        let start_s = calendar::unix_s(&header.started).unwrap_or(0.0);
        self.out.write_all(hdr::log_header(start_s).as_bytes())?;
        self.out.flush()
    }

    fn point(&mut self, point: &Point, _: &Header) -> io::Result<()> {
        let cell = cell_tag(&point.cell);
        for repeat in &point.repeats {
            for op in &repeat.ops {
                self.line(&format!("{cell}/{}", tag_word(&op.op)), repeat, &op.service)?;
            }
            if let Some(unit) = &repeat.unit {
                self.line(&format!("{cell}/unit_response"), repeat, &unit.response)?;
                self.line(&format!("{cell}/unit_service"), repeat, &unit.service)?;
            }
        }
        self.out.flush()
    }

    fn end(&mut self, _: &Run) -> io::Result<()> {
        self.out.flush()
    }
}

fn cell_tag(cell: &Cell) -> String {
    let mut tag =
        format!("{}/{}/t{}", tag_word(&cell.workload), tag_word(&cell.engine), cell.threads);
    if let Some(part) = &cell.part {
        tag.push_str(&format!("/{}", tag_word(&part.phase)));
        if let Some(role) = &part.role {
            tag.push_str(&format!("/{}", tag_word(role)));
        }
    }
    if let Some(sweep) = &cell.sweep {
        tag.push_str(&format!("/{}={}", tag_word(&sweep.param), sweep.value));
    }
    if let Some(rate) = cell.rate {
        tag.push_str(&format!("/rate={rate}"));
    }
    tag
}
