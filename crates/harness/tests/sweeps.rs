//! Sweeps and batches: one cell a value, the value in `ctx`, and what is refused.

use crate::support::Bench;

#[test]
fn a_sweep_makes_a_cell_of_every_value() {
    let bench = Bench::new(
        "return { name = 'w', sweep = { param = 'bytes', values = { 4, 16.0, -1 } },
          load = function(ctx) kv.put('bytes', ctx.bytes) end,
          run = function(ctx)
            assert(kv.get('bytes') == tostring(ctx.bytes) and ctx.batch == 1)
            print(math.type(ctx.bytes), ctx.bytes)
          end }",
    );
    let record = bench.run_clean();
    let cells: Vec<String> = record.points.iter().map(|p| p.cell.to_string()).collect();
    assert_eq!(cells, ["w btree t1 bytes=4", "w btree t1 bytes=16", "w btree t1 bytes=-1"]);
    assert_eq!(bench.lines(), ["integer\t4", "integer\t16", "integer\t-1"]);
}

#[test]
fn a_batched_workload_takes_the_batch_list_and_others_say_that_they_do_not() {
    let batched = "return { name = 'w', batched = true, run = function(ctx) print(ctx.batch) end }";
    let bench = Bench::new(batched).set(&[("batch", "1,64")]);
    assert!(bench.plan().unwrap().notes.is_empty());
    let record = bench.run_clean();
    assert_eq!(bench.lines(), ["1", "64"]);
    let values: Vec<_> =
        record.points.iter().map(|p| p.cell.sweep.clone().map(|s| (s.param, s.value))).collect();
    assert_eq!(values, [Some(("batch".to_owned(), 1)), Some(("batch".to_owned(), 64))]);

    let bench = Bench::unit("print(ctx.batch)").set(&[("batch", "1,64")]);
    let notes = bench.plan().unwrap().notes;
    assert_eq!(notes, ["/w.lua: workload ignores ctx.batch, running batch=1 only"]);
    let record = bench.run_clean();
    assert_eq!((record.points.len(), bench.lines()), (1, vec!["1".to_owned()]));
}

#[test]
fn batched_false_is_not_batched() {
    let bench =
        Bench::new("return { batched = false, run = function() end }").set(&[("batch", "1,2")]);
    assert_eq!(bench.plan().unwrap().notes.len(), 1);
}

#[test]
fn sweeps_that_make_no_sense_are_refused() {
    let mut wrong = Vec::new();
    let long: Vec<String> = (0..65).map(|value| value.to_string()).collect();
    let long = format!("{{ param = 'x', values = {{ {} }} }}", long.join(", "));
    for (sweep, words) in [
        ("{}", "param"),
        ("{ param = '', values = { 1 } }", "param"),
        ("{ param = 'x' }", "values"),
        ("{ param = 'x', values = {} }", "1 to 64 values, it has 0"),
        ("{ param = 'x', values = { 1, 'two' } }", "two"),
        ("{ param = 'x', values = { 1.5 } }", "1.5"),
        ("{ param = 'x', values = 7 }", "values"),
        ("{ param = 'x', values = { 1, 1 } }", "twice"),
        ("{ param = 'x', vales = { 1 }, values = { 1 } }", "vales"),
        ("{ param = 'threads', values = { 1 } }", "threads"),
        (long.as_str(), "it has 65"),
        ("5", "sweep must be a table"),
    ] {
        let script = format!("return {{ name = 'w', sweep = {sweep}, run = function() end }}");
        let text = match Bench::new(&script).plan() {
            Ok(_) => "not refused".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        if !["sweep", words].iter().all(|word| text.contains(word)) || text.lines().count() != 1 {
            wrong.push(format!("{sweep}: '{words}' not in: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
