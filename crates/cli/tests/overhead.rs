//! `keyrack bench --overhead`: what the harness costs. Figures are the machine's; that there are
//! some is ours.

use crate::support::Lab;

#[test]
fn three_shapes_of_one_workload_have_a_cost_each() {
    let lab = Lab::new();
    let out = lab
        .run(
            "bench --overhead workloads/mixed.lua workloads/mixed-native.lua \
             workloads/mixed-declarative.lua",
        )
        .exits(0);
    assert_eq!(out.stderr, "", "{}", out.told());
    let head = out.stdout.lines().find(|line| line.starts_with("workload ")).unwrap();
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["workload", "script", "bridge", "timer", "total", "calls/unit"]);
    for name in ["mixed", "mixed-native", "mixed-declarative"] {
        let row = out.stdout.lines().find(|line| line.split_whitespace().next() == Some(name));
        let row: Vec<f64> = row
            .unwrap_or_else(|| panic!("no row of {name}: {}", out.told()))
            .split_whitespace()
            .skip(1)
            .map(|number| number.parse().unwrap())
            .collect();
        let [script, bridge, timer, total, calls] = row[..] else { panic!("{}", out.told()) };
        assert!(total > 0.0, "{}", out.told());
        assert!((script + bridge + timer - total).abs() < 0.3, "it adds up: {}", out.told());
        assert_eq!(calls, 1.0, "each unit is one verb");
    }
}

#[test]
fn a_workload_that_fails_is_named() {
    let lab =
        Lab::with("bad.lua", "return { name = 'bad', run = function() error('no luck') end }");
    let out = lab.run("bench --overhead bad.lua");
    assert!(out.status == 1 || out.status == 2, "{}", out.told());
    out.warns("bad.lua").warns("no luck");
}

#[test]
fn a_script_that_uses_what_it_finds_has_a_cost_too() {
    let lab = Lab::with(
        "uses.lua",
        "return { name = 'uses', run = function()
           kb.time('both', function() assert(#kv.get('a') > 0 and kv.touch('a') > 0) end)
         end }",
    );
    let out = lab.run("bench --overhead uses.lua").exits(0);
    // Two calls: the label of kb.time is none.
    assert!(out.stdout.lines().any(|line| line.starts_with("uses ") && line.ends_with(" 2.00")));
}
