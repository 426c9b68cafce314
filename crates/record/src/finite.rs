//! The rule that every number of a record is finite.
//!
//! serde_json writes NaN and the infinities as `null`, which reads back as "absent" or not at
//! all. So a run is checked before it is written: each structure lists its floating-point fields
//! once, here, and the first that is not finite is named. Reading needs no check, since JSON has
//! no such numbers.

use crate::{Error, OpSummary, Point, RateSummary, Repeat, Run, Summary};

type Field = (&'static str, f64);

impl Run {
    /// Names the first number that is not finite. O(points x repeats x verbs).
    pub(crate) fn check_finite(&self) -> Result<(), Error> {
        for (place, fields) in self.numbers() {
            if let Some(&(field, value)) = fields.iter().find(|(_, value)| !value.is_finite()) {
                return Err(Error::NotFinite { place, field, value });
            }
        }
        Ok(())
    }

    /// All floating-point numbers that are there, by place.
    pub(crate) fn numbers(&self) -> Vec<(String, Vec<Field>)> {
        let mut header = vec![("warmup", self.header.warmup)];
        header.extend(self.header.secs.map(|secs| ("secs", secs)));
        let mut places = vec![("the header".to_owned(), header)];
        places
            .extend(self.points.iter().map(|point| (point.cell.to_string(), point_fields(point))));
        places.extend(self.failures.iter().map(|failure| {
            let rate = failure.cell.rate.map(|rate| ("rate", rate));
            (failure.cell.to_string(), rate.into_iter().collect())
        }));
        places
    }
}

fn point_fields(point: &Point) -> Vec<Field> {
    let mut fields: Vec<Field> = point.cell.rate.map(|rate| ("rate", rate)).into_iter().collect();
    for repeat in &point.repeats {
        repeat_fields(repeat, &mut fields);
    }
    summary_fields(&point.summary, &mut fields);
    fields
}

fn repeat_fields(repeat: &Repeat, fields: &mut Vec<Field>) {
    fields.extend([
        ("started_s", repeat.started_s),
        ("wall_s", repeat.wall_s),
        ("straggle_s", repeat.straggle_s),
        ("warmup_s", repeat.warmup_s),
        ("wu_per_s", repeat.wu_per_s),
        ("ops_per_s", repeat.ops_per_s),
        ("cpu_s", repeat.cpu_s),
        ("engine_busy", repeat.engine_busy),
        ("clock_drift_ppm", repeat.clock_drift_ppm),
    ]);
    let reported = repeat.rows.iter().flat_map(|row| &row.fields);
    fields.extend(reported.filter_map(|(_, value)| Some(("rows", value.as_f64()?))));
    if let Some(unit) = &repeat.unit {
        fields.push(("offered_per_s", unit.offered_per_s));
        fields.push(("achieved_per_s", unit.achieved_per_s));
    }
    if let Some(aftermath) = &repeat.aftermath {
        fields.push(("settle_s", aftermath.settle_s));
        fields.push(("cpu_s", aftermath.cpu_s));
    }
    if let Some(pace) = &repeat.pace {
        fields.push(("stalled_s", pace.stalled_s));
        fields.push(("longest_s", pace.longest_s));
        fields.extend(pace.drift.map(|drift| ("drift", drift)));
        fields.extend(pace.variation.map(|variation| ("variation", variation)));
    }
    if let Some(group) = &repeat.cgroup {
        fields.extend(group.cpu_s.map(|cpu_s| ("cpu_s", cpu_s)));
        fields.extend(group.user_s.map(|user_s| ("user_s", user_s)));
        fields.extend(group.system_s.map(|system_s| ("system_s", system_s)));
        fields.extend(group.throttled_s.map(|throttled_s| ("throttled_s", throttled_s)));
    }
    if let Some(load) = &repeat.load {
        fields.push(("wall_s", load.wall_s));
    }
}

fn summary_fields(summary: &Summary, fields: &mut Vec<Field>) {
    fields.extend(rate_fields("wu_per_s", &summary.wu_per_s));
    fields.extend(rate_fields("ops_per_s", &summary.ops_per_s));
    fields.extend([
        ("cpu_us_per_unit", summary.cpu_us_per_unit),
        ("engine_busy", summary.engine_busy),
        ("p50_ns", summary.p50_ns),
        ("p99_ns", summary.p99_ns),
    ]);
    fields.extend(summary.ops.iter().flat_map(op_fields));
    fields.extend(summary.response_ns.into_iter().flatten().map(|ns| ("response_ns", ns)));
    fields.extend(summary.unit_service_ns.into_iter().flatten().map(|ns| ("unit_service_ns", ns)));
}

fn rate_fields(name: &'static str, rate: &RateSummary) -> impl Iterator<Item = Field> {
    let ends = rate.interval.into_iter().flat_map(|(low, high)| [low, high]);
    [rate.median, rate.low, rate.high].into_iter().chain(ends).map(move |value| (name, value))
}

fn op_fields(op: &OpSummary) -> impl Iterator<Item = Field> {
    let always = [
        ("p50_ns", op.p50_ns),
        ("p99_ns", op.p99_ns),
        ("p999_ns", op.p999_ns),
        ("max_ns", op.max_ns),
        ("mean_ns", op.mean_ns),
        ("error_rate", op.error_rate),
    ];
    always.into_iter().chain(op.hit_rate.map(|rate| ("hit_rate", rate)))
}
