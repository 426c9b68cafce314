//! Masters and agents over loopback: whole runs, and everything that can be missing from one.
//!
//! A side that is to be heard has a minute for it, so that a machine that stands still fails
//! nothing; one that is to be found silent has a fifth of a second.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use keyrack_measure::{Clock, Histogram};
use keyrack_net::Endpoint;
use keyrack_workload::Rng;
use serde_json::json;

use super::message::{Message, NAME, VERSION};
use super::message_stream::MessageStream;
use super::*;

const SEED: u64 = 20_261_122;
const MINUTE: Duration = Duration::from_secs(60);

fn patient() -> Deadlines {
    Deadlines {
        connect: MINUTE,
        answer: MINUTE,
        ready: MINUTE,
        finish: MINUTE,
        beat: Duration::from_millis(50),
        silence: MINUTE,
    }
}

fn loopback() -> Endpoint {
    "127.0.0.1:0".parse().unwrap()
}

fn samples(agent: u32, run: u32) -> Vec<u64> {
    let mut rng = Rng::from_seed(SEED + u64::from(agent * 100 + run));
    (0..5000).map(|_| (rng.exponential() * 1e6) as u64).collect()
}

/// A runner that does what its settings say.
#[derive(Default)]
struct Fake {
    agent: u32,
    runs: u32,
    settings: serde_json::Value,
    rate: Option<f64>,
    dismissed: AtomicU32,
}

impl Fake {
    fn is_told(&self, word: &str) -> bool {
        self.settings[word].as_u64() == Some(u64::from(self.agent))
    }
}

impl Runner for Fake {
    fn prepare(
        &mut self,
        agent: u32,
        settings: &serde_json::Value,
        _: &Doing,
    ) -> Result<Prepared, String> {
        (self.agent, self.settings) = (agent, settings.clone());
        if self.is_told("refuses") {
            return Err("cannot: no such protocol".to_owned());
        }
        Ok(Prepared { threads: 2, connections: 8 * agent, lambda_mul: 1 })
    }

    fn ready(&mut self, rate_per_s: Option<f64>, doing: &Doing) -> Result<(), String> {
        self.rate = rate_per_s;
        if self.is_told("panics") {
            panic!("as the test wants it");
        }
        if self.is_told("finds_no_server") {
            return Err("10.0.0.9:11211: connection refused".to_owned());
        }
        if self.settings["loads_for_ever"].as_bool() == Some(true) && !self.is_told("but_not") {
            wait_for_stop(doing);
        }
        Ok(())
    }

    fn run(&mut self, _: Duration, doing: &Doing) -> Result<Outcome, String> {
        self.runs += 1;
        let mut outcome = Outcome { window_s: 1.0, ..Outcome::default() };
        let response = outcome.histograms.entry("get".to_owned()).or_default();
        for sample in samples(self.agent, self.runs) {
            response.record(sample);
        }
        outcome.counts.insert("ops".to_owned(), 5000);
        outcome.counts.insert("rate".to_owned(), self.rate.unwrap_or(0.0) as u64);
        doing.progress(5000);
        if self.settings["for_ever"].as_bool() == Some(true) {
            wait_for_stop(doing);
            outcome.is_interrupted = true;
        }
        Ok(outcome)
    }

    fn dismiss(&mut self) {
        self.dismissed.fetch_add(1, Ordering::Relaxed);
    }
}

fn wait_for_stop(doing: &Doing) {
    let clock = Clock::vdso();
    while !doing.is_stopped() {
        clock.wait_until(clock.ticks() + 1_000_000);
    }
}

/// Runs a test with so many agents; it gets their addresses. Returns what they complained of.
fn with_agents(
    count: usize,
    token: Option<&str>,
    deadlines: Deadlines,
    test: impl FnOnce(&[Endpoint]),
) -> Vec<String> {
    let stop = AtomicBool::new(false);
    let complaints = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let (ready, addresses) = mpsc::channel();
        for _ in 0..count {
            let (ready, stop, complaints) = (ready.clone(), &stop, &complaints);
            let token = token.map(str::to_owned);
            scope.spawn(move || {
                let options = AgentOptions { endpoint: loopback(), token, deadlines };
                let complain = |words: &str| complaints.lock().unwrap().push(words.to_owned());
                serve(
                    &options,
                    &mut Fake::default(),
                    &mut |address| ready.send(address.clone()).unwrap(),
                    &complain,
                    &|| stop.load(Ordering::Relaxed),
                )
                .unwrap();
            });
        }
        let addresses: Vec<Endpoint> = addresses.iter().take(count).collect();
        // Agents end in any case, or the test would wait for them instead of failing.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&addresses)));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    complaints.into_inner().unwrap()
}

/// An agent made of single messages: it answers with these, one after the other, and hangs up.
fn raw_agent(
    scope: &thread::Scope<'_, '_>,
    answers: Vec<Message>,
    then: impl FnOnce(MessageStream) + Send + 'static,
) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Ip(listener.local_addr().unwrap());
    // Its thread ends with the connection; the scope of the test does not wait for it.
    let _ = scope;
    thread::spawn(move || {
        let mut stream = MessageStream::over(listener.accept().unwrap().0, MINUTE).unwrap();
        let mut answers = answers.into_iter();
        // The greeting comes unasked.
        for answer in answers.by_ref().take(1) {
            stream.send(&answer).unwrap();
        }
        for answer in answers {
            while matches!(stream.receive(MINUTE), Ok(Some(Message::Beat { .. }) | None)) {}
            stream.send(&answer).unwrap();
        }
        then(stream);
    });
    address
}

fn hang_up(mut stream: MessageStream) {
    // The question that will have no answer.
    while matches!(stream.receive(MINUTE), Ok(Some(Message::Beat { .. }) | None)) {}
}

/// All outcomes together.
fn merged(collected: &Collected) -> Outcome {
    let mut all = Outcome::default();
    for (_, outcome) in &collected.outcomes {
        for (name, count) in &outcome.counts {
            *all.counts.entry(name.clone()).or_default() += count;
        }
        for (name, histogram) in &outcome.histograms {
            all.histograms.entry(name.clone()).or_default().merge(histogram);
        }
    }
    all
}

fn greeting() -> Message {
    let (name, nonce) = (NAME.to_owned(), "00".to_owned());
    Message::Greeting { name, version: VERSION, nonce, wants_token: false }
}

fn prepared() -> Message {
    Message::Prepared(Prepared { threads: 1, connections: 1, lambda_mul: 1 })
}

fn run(team: &mut Team, settings: &serde_json::Value, rates: &[Option<f64>]) -> Collected {
    team.prepare(settings).unwrap();
    team.ready(rates, &|| false).unwrap();
    team.start(Duration::from_millis(1)).unwrap();
    team.collect(MINUTE, &|| false, &mut |_| {})
}

#[test]
fn eight_agents_run_again_and_again_and_histograms_are_the_union_of_all_samples() {
    let complaints = with_agents(8, Some("secret"), patient(), |agents| {
        let mut team = Team::enlist(agents, Some("secret"), patient()).unwrap();
        for turn in 1..=3 {
            let members = team.prepare(&json!({"depth": 4})).unwrap();
            assert_eq!(members[7].connections, 64);
            let fleet = Fleet {
                rate_per_s: 36_000.0,
                measure_rate_per_s: None,
                master: Member { threads: 0, connections: 0, lambda_mul: 1 },
                agents: members,
            };
            team.ready(&fleet.rates().unwrap().agents_per_s, &|| false).unwrap();
            team.start(Duration::from_millis(1)).unwrap();
            let collected = team.collect(MINUTE, &|| false, &mut |_| {});
            assert_eq!((collected.outcomes.len(), &collected.lost[..]), (8, &[][..]));
            let mut expected = Histogram::new();
            for agent in 1..=8 {
                samples(agent, turn).iter().for_each(|sample| expected.record(*sample));
            }
            let merged = merged(&collected);
            assert_eq!(merged.histograms["get"], expected);
            assert_eq!((merged.counts["ops"], merged.counts["rate"]), (40_000, 36_000));
            let (name, third) = &collected.outcomes[2];
            assert_eq!((name, third.counts["rate"]), (&agents[2].to_string(), 3000));
        }
        team.dismiss();
    });
    assert_eq!(complaints, [""; 0]);
}

#[test]
fn an_agent_that_cannot_is_named_and_the_others_are_free_again() {
    with_agents(3, None, patient(), |agents| {
        for (settings, words) in [
            (json!({"refuses": 2}), "cannot: no such protocol"),
            (json!({"finds_no_server": 2}), "10.0.0.9:11211: connection refused"),
            (json!({"finds_no_server": 2, "loads_for_ever": true}), "connection refused"),
            (json!({"panics": 2}), "ended by a panic"),
        ] {
            let mut team = again(agents);
            let failed = team.prepare(&settings).map(|_| ());
            let failed = failed.and_then(|()| team.ready(&[None; 3], &|| false)).unwrap_err();
            let message = failed.to_string();
            assert!(message.starts_with(&format!("agent {}: ", agents[1])), "{message}");
            assert!(message.ends_with(words), "{message}");
            drop(team);
            let mut team = again(agents);
            assert_eq!(run(&mut team, &json!({}), &[None; 3]).outcomes.len(), 3);
            team.dismiss();
        }
    });
}

/// Enlists agents that may still be busy with noticing that their last master is gone.
fn again(agents: &[Endpoint]) -> Team {
    loop {
        match Team::enlist(agents, None, patient()) {
            Ok(team) => return team,
            Err(error) => assert!(error.to_string().contains("busy"), "{error}"),
        }
    }
}

#[test]
fn an_agent_that_dies_before_the_run_ends_it_and_is_named() {
    let welcome = Message::Welcome { proof: None };
    let deaths = [
        vec![],
        vec![greeting()],
        vec![greeting(), welcome.clone()],
        vec![greeting(), welcome.clone(), prepared()],
    ];
    with_agents(1, None, patient(), |agents| {
        for answers in deaths {
            let steps = answers.len();
            thread::scope(|scope| {
                // The first one does not even greet.
                let end = if steps == 0 { drop } else { hang_up };
                let mortal = raw_agent(scope, answers, end);
                let both = [agents[0].clone(), mortal.clone()];
                let failed = loop {
                    let enlisted = Team::enlist(&both, None, patient());
                    match enlisted.and_then(|mut team| {
                        team.prepare(&json!({}))?;
                        team.ready(&[None; 2], &|| false)
                    }) {
                        Err(error) if error.to_string().contains("busy") => continue,
                        outcome => break outcome.unwrap_err().to_string(),
                    }
                };
                assert!(failed.starts_with(&format!("agent {mortal}: ")), "{steps}: {failed}");
                let is_gone = failed.contains("closed the connection") || failed.contains("reset");
                assert!(is_gone, "{steps}: {failed}");
            });
        }
    });
}

#[test]
fn an_agent_that_dies_during_the_run_is_named_and_the_others_count() {
    with_agents(2, None, patient(), |agents| {
        thread::scope(|scope| {
            let welcome = Message::Welcome { proof: None };
            let answers = vec![greeting(), welcome, prepared(), Message::IsReady];
            let mortal = raw_agent(scope, answers, hang_up);
            let all = [agents[0].clone(), mortal.clone(), agents[1].clone()];
            let mut team = Team::enlist(&all, None, patient()).unwrap();
            let collected = run(&mut team, &json!({}), &[None; 3]);
            assert_eq!(collected.outcomes.len(), 2);
            assert_eq!(collected.lost.len(), 1);
            assert_eq!(collected.lost[0].name, mortal.to_string());
            assert_eq!(merged(&collected).counts["ops"], 10_000);
            // A team without all its agents is none any more.
            assert!(team.prepare(&json!({})).is_err());
        });
    });
}

#[test]
fn an_agent_that_says_nothing_is_dead() {
    let impatient = Deadlines { silence: Duration::from_millis(200), ..patient() };
    thread::scope(|scope| {
        let answers = vec![greeting(), Message::Welcome { proof: None }];
        let (hold, released) = mpsc::channel::<()>();
        let mute = raw_agent(scope, answers, move |stream| {
            // Held open until the test is over.
            let _ = released.recv();
            drop(stream);
        });
        let mut team = Team::enlist(std::slice::from_ref(&mute), None, patient()).unwrap();
        // From here on it has nothing to say.
        team.deadlines = impatient;
        let failed = team.prepare(&json!({})).unwrap_err().to_string();
        assert_eq!(failed, format!("agent {mute}: said nothing for 200ms"));
        drop(hold);
    });
}

#[test]
fn an_agent_that_lives_but_does_not_finish_is_given_up() {
    let deadlines = Deadlines { finish: Duration::from_millis(300), ..patient() };
    with_agents(1, None, patient(), |agents| {
        let mut team = Team::enlist(agents, None, deadlines).unwrap();
        team.prepare(&json!({"for_ever": true})).unwrap();
        team.ready(&[None], &|| false).unwrap();
        team.start(Duration::ZERO).unwrap();
        let collected = team.collect(Duration::ZERO, &|| false, &mut |_| {});
        assert_eq!(collected.lost[0].reason, "has no result 300ms after the start");
    });
}

#[test]
fn an_interrupted_run_brings_what_there_is() {
    with_agents(2, None, patient(), |agents| {
        let mut team = Team::enlist(agents, None, patient()).unwrap();
        team.prepare(&json!({"for_ever": true})).unwrap();
        team.ready(&[None, None], &|| false).unwrap();
        team.start(Duration::ZERO).unwrap();
        // It is interrupted when both have said how far they are.
        let seen = AtomicBool::new(false);
        let stop = || seen.load(Ordering::Relaxed);
        let watch = &mut |ops| seen.store(ops == 10_000, Ordering::Relaxed);
        let collected = team.collect(MINUTE, &stop, watch);
        assert!(collected.outcomes[0].1.is_interrupted && collected.lost.is_empty());
        assert_eq!(merged(&collected).counts["ops"], 10_000);
        // They are ready for more.
        assert_eq!(run(&mut team, &json!({}), &[None, None]).outcomes.len(), 2);

        team.prepare(&json!({"loads_for_ever": true})).unwrap();
        let mut looks = 0;
        let looked = Mutex::new(&mut looks);
        let stop = || {
            **looked.lock().unwrap() += 1;
            **looked.lock().unwrap() > 5
        };
        let ended = team.ready(&[None, None], &stop).unwrap_err();
        assert!(matches!(ended, Error::Interrupted));
    });
}

#[test]
fn an_agent_whose_master_dies_stops_and_listens_again() {
    let complaints = with_agents(1, None, patient(), |agents| {
        for settings in [json!({"for_ever": true}), json!({"loads_for_ever": true})] {
            let mut team = again(agents);
            team.prepare(&settings).unwrap();
            if settings["for_ever"].is_boolean() {
                team.ready(&[None], &|| false).unwrap();
                team.start(Duration::ZERO).unwrap();
            } else {
                let mut stop = false;
                let stop = Mutex::new(&mut stop);
                // The message is out when the first look around comes.
                let _ = team.ready(&[None], &|| std::mem::replace(*stop.lock().unwrap(), true));
            }
            drop(team);
        }
        let mut team = again(agents);
        assert_eq!(run(&mut team, &json!({}), &[None]).outcomes.len(), 1);
        team.dismiss();
    });
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints.iter().all(|words| words.starts_with("master 127.0.0.1:")));
}

#[test]
fn a_silent_master_is_left() {
    let impatient = Deadlines { silence: Duration::from_millis(200), ..patient() };
    let complaints = with_agents(1, None, impatient, |agents| {
        let Endpoint::Ip(address) = agents[0] else { panic!("an address") };
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(MINUTE)).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(received.len() > 4, "a greeting, and then the end");
    });
    assert!(complaints[0].ends_with("said nothing for 200ms"), "{complaints:?}");
}

#[test]
fn a_second_master_is_refused_while_one_is_there() {
    with_agents(1, None, patient(), |agents| {
        let mut first = Team::enlist(agents, None, patient()).unwrap();
        let refused = Team::enlist(agents, None, patient()).unwrap_err().to_string();
        assert_eq!(refused, format!("agent {}: is busy with another master", agents[0]));
        assert_eq!(run(&mut first, &json!({}), &[None]).outcomes.len(), 1);
        first.dismiss();
        again(agents).dismiss();
    });
}

#[test]
fn tokens_are_proved_both_ways() {
    with_agents(1, Some("right"), patient(), |agents| {
        let refused = |token: Option<&str>| loop {
            let error = Team::enlist(agents, token, patient()).unwrap_err().to_string();
            if !error.contains("busy") {
                return error;
            }
        };
        assert!(refused(Some("wrong")).ends_with(": wants another token"));
        assert!(refused(None).ends_with(": wants a token (--agent-token FILE)"));
        let team = loop {
            match Team::enlist(agents, Some("right"), patient()) {
                Ok(team) => break team,
                Err(error) => assert!(error.to_string().contains("busy"), "{error}"),
            }
        };
        team.dismiss();
    });
    with_agents(1, None, patient(), |agents| {
        let refused = Team::enlist(agents, Some("right"), patient()).unwrap_err().to_string();
        assert!(refused.ends_with(": was started without a token"), "{refused}");
    });
    // One that claims to know the token, and does not.
    thread::scope(|scope| {
        let Message::Greeting { name, version, nonce, .. } = greeting() else { unreachable!() };
        let greeting = Message::Greeting { name, version, nonce, wants_token: true };
        let welcome = Message::Welcome { proof: Some("00".repeat(32)) };
        let liar = raw_agent(scope, vec![greeting, welcome], hang_up);
        let refused = Team::enlist(&[liar], Some("right"), patient()).unwrap_err().to_string();
        assert!(refused.ends_with(": does not know the token"), "{refused}");
    });
}

#[test]
fn versions_must_be_equal() {
    thread::scope(|scope| {
        let Message::Greeting { name, nonce, .. } = greeting() else { unreachable!() };
        let newer = Message::Greeting { name, version: VERSION + 1, nonce, wants_token: false };
        let agent = raw_agent(scope, vec![newer], hang_up);
        let refused = Team::enlist(&[agent], None, patient()).unwrap_err().to_string();
        assert!(refused.contains("speaks version 4, and this master version 3"), "{refused}");
    });
    let complaints = with_agents(1, None, patient(), |agents| {
        let mut stream = MessageStream::connect(&agents[0], MINUTE).unwrap();
        let nonce = "00".to_owned();
        stream.send(&Message::Hello { version: VERSION + 1, nonce, proof: None }).unwrap();
        let mut heard = Vec::new();
        while let Ok(message) = stream.receive(MINUTE) {
            heard.extend(message);
        }
        let Some(Message::Refused { reason }) = heard.last() else { panic!("{heard:?}") };
        assert_eq!(reason, "speaks version 3, and the master version 4");
    });
    assert!(complaints[0].contains("turned away"), "{complaints:?}");
}

#[test]
fn what_is_no_message_ends_a_session_and_not_the_agent() {
    let complaints = with_agents(1, None, patient(), |agents| {
        let Endpoint::Ip(address) = agents[0] else { panic!("an address") };
        let frame = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0xff; 8],
            [&5000u32.to_be_bytes()[..], b"{"].concat(),
            frame("{\"type\":\"hello\"}"),
            frame("{\"type\":\"launch\"}"),
            frame("\u{1}"),
            frame("{\"type\":\"start\",\"in_ms\":1}"),
        ] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(MINUTE)).unwrap();
            stream.write_all(&bytes).unwrap();
            // It ends, whether by an end or by a reset.
            let _ = stream.read_to_end(&mut Vec::new());
        }
        again(agents).dismiss();
    });
    // Some of them may have come while the one before was still there.
    assert!(complaints.len() >= 2, "{complaints:?}");
}

#[test]
fn what_is_no_agent_is_said_to_be_none() {
    for (bytes, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "announced a message of"),
        (b"\0\0\0\x02{}", "sent what is no message"),
        (b"", "closed the connection"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Endpoint::Ip(listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let refused = Team::enlist(&[address], None, patient()).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        server.join().unwrap();
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = Team::enlist(&[Endpoint::Ip(nobody)], None, patient()).unwrap_err().to_string();
    assert!(refused.contains("cannot be reached"), "{refused}");
}

#[test]
fn nobody_is_exposed_without_a_token() {
    let options =
        AgentOptions { endpoint: "0.0.0.0:0".parse().unwrap(), token: None, deadlines: patient() };
    let refused = serve(&options, &mut Fake::default(), &mut |_| {}, &|_| {}, &|| true);
    let words = refused.unwrap_err().to_string();
    assert!(words.starts_with("an agent on 0.0.0.0:0 can be reached by others"), "{words}");
    // An address of documentation, which is not even tried.
    let far: Endpoint = "192.0.2.1:5556".parse().unwrap();
    let words = Team::enlist(&[far], None, patient()).unwrap_err().to_string();
    assert!(words.starts_with("agent 192.0.2.1:5556 is on another machine"), "{words}");
    with_agents(1, None, patient(), |agents| {
        let same = [agents[0].clone(), agents[0].clone()];
        let words = Team::enlist(&same, None, patient()).unwrap_err().to_string();
        assert!(words.ends_with("is named twice"), "{words}");
    });
}

fn fleet(rate: f64, measure: Option<f64>, master: (u32, u32), agents: &[(u32, u32)]) -> Fleet {
    let member =
        |&(connections, lambda_mul): &(u32, u32)| Member { threads: 1, connections, lambda_mul };
    Fleet {
        rate_per_s: rate,
        measure_rate_per_s: measure,
        master: member(&master),
        agents: agents.iter().map(member).collect(),
    }
}

#[test]
fn rates_are_dealt_out_by_connections_and_multipliers() {
    let rates = |fleet: &Fleet| {
        let rates = fleet.rates().unwrap();
        let agents: Vec<f64> = rates.agents_per_s.iter().map(|r| r.unwrap_or(-1.0)).collect();
        (rates.master_per_s.unwrap_or(-1.0), agents)
    };
    // The README's example: -Q 1000 -C 4 -T 16 -c 4 -q 200000 and eight agents with -T 16.
    let example = fleet(200_000.0, Some(1000.0), (64, 1), &[(64, 1); 8]);
    assert_eq!(rates(&example), (1000.0, vec![199_000.0 / 8.0; 8]));
    assert_eq!(rates(&fleet(900.0, None, (1, 1), &[(1, 1), (1, 1)])), (300.0, vec![300.0; 2]));
    let multiplied = fleet(600.0, None, (1, 1), &[(1, 2), (1, 3)]);
    assert_eq!(rates(&multiplied), (100.0, vec![200.0, 300.0]));
    assert_eq!(rates(&fleet(800.0, None, (4, 1), &[(12, 1)])), (200.0, vec![600.0]));
    assert_eq!(rates(&fleet(0.0, None, (4, 1), &[(4, 1)])), (-1.0, vec![-1.0]));
    assert_eq!(rates(&fleet(0.0, Some(50.0), (4, 1), &[(4, 1)])), (50.0, vec![-1.0]));
    assert_eq!(rates(&fleet(800.0, None, (0, 1), &[(4, 1), (4, 1)])).1, [400.0; 2]);
    assert_eq!(rates(&fleet(800.0, None, (4, 1), &[])), (800.0, vec![]));
    for (fleet, words) in [
        (fleet(800.0, Some(800.0), (4, 1), &[(4, 1)]), "below that of all together"),
        (fleet(800.0, Some(10.0), (0, 1), &[(4, 1)]), "cannot have a rate of its own"),
        (fleet(800.0, None, (0, 1), &[]), "nobody sends"),
    ] {
        let refused = fleet.rates().unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

/// 64 MiB of short histograms took the master 34 KiB each.
#[test]
fn an_outcome_of_a_thousand_histograms_is_refused() {
    let mut outcome = Outcome::default();
    let text = |outcome: &Outcome| serde_json::to_string(outcome).unwrap();
    for number in 0..256 {
        outcome.histograms.insert(format!("h{number}"), Histogram::new());
    }
    assert!(serde_json::from_str::<Outcome>(&text(&outcome)).is_ok());
    outcome.histograms.insert("one more".to_owned(), Histogram::new());
    let refused = serde_json::from_str::<Outcome>(&text(&outcome)).unwrap_err().to_string();
    assert!(refused.contains("257 histograms, at most 256"), "{refused}");
}

#[test]
fn outcomes_travel_exactly_and_broken_ones_are_refused() {
    let mut outcome = Outcome { ops_by_second: vec![3, 4], ..Outcome::default() };
    outcome.threads.push((0.25, 1.0));
    outcome.histograms.insert("empty".to_owned(), Histogram::new());
    let mut histogram = Histogram::new();
    samples(1, 1).iter().for_each(|sample| histogram.record(*sample));
    histogram.record(u64::MAX);
    outcome.histograms.insert("set".to_owned(), histogram);
    let text = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    let broken = text.replacen("\"buckets\":[[", "\"buckets\":[[1000001,1],[", 1);
    assert_ne!(broken, text);
    let refused = serde_json::from_str::<Outcome>(&broken).unwrap_err().to_string();
    assert!(refused.contains("is none"), "{refused}");
}
