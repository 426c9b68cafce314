//! The agent's side: listens, lets one master in at a time, and does what it says.
//!
//! ```text
//!   Listening --proof--> Idle --Prepare--> Prepared --Ready--> Ready --Start--> Idle
//!       ^                 |  ^______________________________________________|
//!       +-- Bye, silence, +         (at all work beats go out meanwhile)
//!           end of connection
//! ```
//!
//! Work is done by a thread of its own, so that signs of life go out and an `Abort` comes in while
//! it lasts. Work that is told to stop must return soon; its answer is sent all the same, unless
//! nobody is there any more.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_net::Endpoint;

use super::deadlines::Deadlines;
use super::error::Error;
use super::message::{Message, NAME, Prepared, VERSION};
use super::message_stream::{MessageStream, wait};
use super::outcome::Outcome;
use super::token::{self, Side};

/// How long a turn of waiting lasts, in which nothing else is seen.
const WAIT: Duration = Duration::from_millis(10);
/// How long the wait for a master lasts before the order to stop is looked at.
const LISTEN_TURN: Duration = Duration::from_millis(100);

/// What an agent works with while it works.
#[derive(Debug, Default)]
pub struct Doing {
    stop: AtomicBool,
    ops: AtomicU64,
}

impl Doing {
    /// Whether the work is to end at once, with what there is.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        // Relaxed: a flag that publishes nothing.
        self.stop.load(Ordering::Relaxed)
    }

    /// Says how many requests were answered so far, for the master's line.
    pub fn progress(&self, ops: u64) {
        self.ops.store(ops, Ordering::Relaxed);
    }
}

/// What does the work of an agent. An `Err` is what the master tells its user; the agent lives on.
pub trait Runner: Send {
    /// Reads the settings and says what it will be. `agent` numbers the agents from 1, so that each
    /// draws its own random numbers.
    ///
    /// # Errors
    /// Settings that this agent cannot follow.
    fn prepare(
        &mut self,
        agent: u32,
        settings: &serde_json::Value,
        doing: &Doing,
    ) -> Result<Prepared, String>;

    /// Connects, loads, warms up, for so many requests a second.
    ///
    /// # Errors
    /// Servers that are not there.
    fn ready(&mut self, rate_per_s: Option<f64>, doing: &Doing) -> Result<(), String>;

    /// Measures, from so long after the call.
    ///
    /// # Errors
    /// There is no outcome, not even in part.
    fn run(&mut self, start_in: Duration, doing: &Doing) -> Result<Outcome, String>;

    /// The master is gone, or done: connections are to be closed.
    fn dismiss(&mut self);
}

/// What an agent listens with.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Where.
    pub endpoint: Endpoint,
    /// What a master must know.
    pub token: Option<String>,
    /// How long steps may take.
    pub deadlines: Deadlines,
}

/// Listens and serves one master after the other until `stop` says so. `ready` is told where.
///
/// A second master is refused while one is there. What goes wrong with a master is told to
/// `complain` and ends its session, not the agent.
///
/// # Errors
/// An endpoint that others can reach without a token, or that cannot be listened on.
pub fn serve(
    options: &AgentOptions,
    runner: &mut dyn Runner,
    ready: &mut dyn FnMut(&Endpoint),
    complain: &(dyn Fn(&str) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    let listener = listen(options)?;
    let machine = |action: &str| {
        let action = action.to_owned();
        move |cause| Error::Machine { action, cause }
    };
    let address = listener.local_addr().map_err(machine("listen"))?;
    ready(&Endpoint::Ip(address));
    let runner = Mutex::new(runner);
    let is_busy = AtomicBool::new(false);
    thread::scope(|scope| {
        while !stop() {
            if !wait([listener.as_fd()], LISTEN_TURN) {
                continue;
            }
            let Ok((stream, _)) = listener.accept() else { continue };
            let session = thread::Builder::new().name("agent".to_owned());
            let (runner, is_busy) = (&runner, &is_busy);
            let spawned = session.spawn_scoped(scope, move || {
                if !become_busy(is_busy, options.deadlines.beat * 2) {
                    return refuse(stream, options);
                }
                let mut runner = runner.lock().unwrap_or_else(PoisonError::into_inner);
                let ended = Session::begin(stream, options, stop)
                    .and_then(|mut session| session.serve(&mut **runner));
                runner.dismiss();
                drop(runner);
                // Release pairs with the exchange of the next session, which finds the runner free.
                is_busy.store(false, Ordering::Release);
                if let Err(end) = ended {
                    complain(&end);
                }
            });
            if let Err(cause) = spawned {
                complain(&format!("cannot serve a master: {cause}"));
            }
        }
    });
    Ok(())
}

fn listen(options: &AgentOptions) -> Result<TcpListener, Error> {
    let mut failure = None;
    for place in options.endpoint.resolve()? {
        if !place.is_loopback() && options.token.is_none() {
            return Err(Error::Usage(format!(
                "an agent on {place} can be reached by others: give it and its master a token \
                 (--agent-token FILE), or let it listen on 127.0.0.1"
            )));
        }
        let Endpoint::Ip(address) = place else {
            return Err(Error::Usage(format!("an agent needs an address and a port: {place}")));
        };
        match TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        }) {
            Ok(listener) => return Ok(listener),
            Err(cause) => failure = Some(cause),
        }
    }
    let cause = failure.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
    Err(Error::Machine { action: format!("listen on {}", options.endpoint), cause })
}

/// Takes the one place for a master, if it gets free soon: the master before may be saying goodbye.
fn become_busy(is_busy: &AtomicBool, patience: Duration) -> bool {
    let clock = Clock::vdso();
    let start = clock.ticks();
    loop {
        // Acquire pairs with the release of the session before.
        if !is_busy.swap(true, Ordering::AcqRel) {
            return true;
        }
        let now = clock.ticks();
        if u128::from(clock.ns_between(start, now)) > patience.as_nanos() {
            return false;
        }
        let turn_ns = u64::try_from(WAIT.as_nanos()).unwrap_or(u64::MAX);
        clock.wait_until(now + clock.ticks_of_ns(turn_ns));
    }
}

/// Tells a second master that there is one. Best effort: it may be gone.
fn refuse(stream: TcpStream, options: &AgentOptions) {
    let reason = "is busy with another master".to_owned();
    if let Ok(mut stream) = MessageStream::over(stream, options.deadlines.answer)
        && stream.send(&Message::Refused { reason }).is_ok()
    {
        stream.part(options.deadlines.beat * 2);
    }
}

/// How a session ends that does not end well: words for whoever runs the agent.
type End = String;

/// One master.
struct Session<'a> {
    stream: MessageStream,
    options: &'a AgentOptions,
    stop: &'a (dyn Fn() -> bool + Sync),
    master: String,
}

impl<'a> Session<'a> {
    /// Finds out who is there.
    fn begin(
        stream: TcpStream,
        options: &'a AgentOptions,
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Session<'a>, End> {
        let stream =
            MessageStream::over(stream, options.deadlines.answer).map_err(|e| e.to_string())?;
        let master = stream.peer();
        let mut session = Session { stream, options, stop, master };
        let nonce = token::nonce().map_err(|error| format!("no random bytes: {error}"))?;
        let wants_token = options.token.is_some();
        let (name, version) = (NAME.to_owned(), VERSION);
        session.send(&Message::Greeting { name, version, nonce: nonce.clone(), wants_token })?;
        let message = session.next(options.deadlines.answer)?;
        let Message::Hello { version, nonce: theirs, proof } = message else {
            return Err(session.turn_away(&format!("began with {}", message.name())));
        };
        if version != VERSION {
            let reason = format!("speaks version {VERSION}, and the master version {version}");
            return Err(session.turn_away(&reason));
        }
        let ours = options.token.as_ref().map(|secret| {
            let expected = token::proof(secret, Side::Master, &nonce, &theirs);
            let is_known = proof.as_ref().is_some_and(|proof| token::is_equal(proof, &expected));
            (is_known, token::proof(secret, Side::Agent, &theirs, &nonce))
        });
        let proof = match ours {
            Some((false, _)) => return Err(session.turn_away("wants another token")),
            Some((true, proof)) => Some(proof),
            None => None,
        };
        session.send(&Message::Welcome { proof })?;
        session.stream.trust();
        Ok(session)
    }

    /// Does what the master says until it says goodbye.
    fn serve(&mut self, runner: &mut dyn Runner) -> Result<(), End> {
        let mut step = Step::Idle;
        loop {
            // A master may think as long as it likes, if it is alive.
            let message = self.next(Duration::MAX)?;
            step = match (step, message) {
                (_, Message::Bye) => return Ok(()),
                // Nothing is being done.
                (_, Message::Abort) => Step::Idle,
                (_, Message::Prepare { agent, settings }) => {
                    let work = |doing: &Doing| runner.prepare(agent, &settings, doing);
                    match self.during(work)? {
                        Ok(prepared) => {
                            self.answer(&Message::Prepared(prepared), Step::Prepared)?
                        }
                        Err(reason) => self.answer(&Message::Failed { reason }, Step::Idle)?,
                    }
                }
                (Step::Prepared, Message::Ready { rate_per_s }) => {
                    match self.during(|doing| runner.ready(rate_per_s, doing))? {
                        Ok(()) => self.answer(&Message::IsReady, Step::Ready)?,
                        Err(reason) => self.answer(&Message::Failed { reason }, Step::Idle)?,
                    }
                }
                (Step::Ready, Message::Start { in_ms }) => {
                    let start_in = Duration::from_millis(in_ms);
                    match self.during(|doing| runner.run(start_in, doing))? {
                        Ok(outcome) => {
                            let outcome = Box::new(outcome);
                            self.answer(&Message::Done { outcome }, Step::Idle)?
                        }
                        Err(reason) => self.answer(&Message::Failed { reason }, Step::Idle)?,
                    }
                }
                (step, message) => {
                    let reason = format!("got {} while it was {step:?}", message.name());
                    return Err(self.turn_away(&reason));
                }
            };
        }
    }

    fn answer(&mut self, message: &Message, step: Step) -> Result<Step, End> {
        self.send(message)?;
        Ok(step)
    }

    /// Lets work be done by a thread of its own; meanwhile beats go out and orders come in.
    fn during<T: Send>(
        &mut self,
        work: impl FnOnce(&Doing) -> Result<T, String> + Send,
    ) -> Result<Result<T, String>, End> {
        let doing = Doing::default();
        thread::scope(|scope| {
            let (done, results) = mpsc::channel();
            let shared = &doing;
            let worker = move || drop(done.send(work(shared)));
            let spawned = thread::Builder::new().name("run".to_owned()).spawn_scoped(scope, worker);
            let worker = match spawned {
                Ok(worker) => worker,
                Err(cause) => return Ok(Err(format!("no thread for the work: {cause}"))),
            };
            let mut ending = None;
            loop {
                match results.recv_timeout(WAIT) {
                    Ok(result) => return ending.map_or(Ok(result), Err),
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        // What the panic said is on standard error.
                        let _ = worker.join();
                        return Ok(Err("the work ended by a panic".to_owned()));
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
                if ending.is_some() {
                    continue;
                }
                let looked = self.look(doing.ops.load(Ordering::Relaxed));
                let is_over = match looked {
                    Ok(Some(Message::Abort)) => true,
                    Ok(Some(message)) => {
                        ending = Some(self.turn_away(&format!("got {} at work", message.name())));
                        true
                    }
                    Ok(None) => (self.stop)(),
                    Err(end) => {
                        ending = Some(end);
                        true
                    }
                };
                if is_over {
                    doing.stop.store(true, Ordering::Relaxed);
                }
            }
        })
    }

    /// What the master has just said, if anything. Beats are taken note of, and sent.
    fn look(&mut self, ops: u64) -> Result<Option<Message>, End> {
        let Deadlines { beat, silence, .. } = self.options.deadlines;
        let heard = self.stream.beat(beat, ops).and_then(|()| self.stream.receive(Duration::ZERO));
        match heard {
            Ok(None) if self.stream.silence() > silence => {
                Err(self.end(&format!("said nothing for {silence:?}")))
            }
            Ok(Some(Message::Beat { .. })) => Ok(None),
            Ok(message) => Ok(message),
            Err(error) => Err(self.end(&error.to_string())),
        }
    }

    fn next(&mut self, patience: Duration) -> Result<Message, End> {
        let clock = Clock::vdso();
        let start = clock.ticks();
        loop {
            if let Some(message) = self.look(0)? {
                return Ok(message);
            }
            if (self.stop)() {
                return Err(self.end("was left: the agent ends"));
            }
            if u128::from(clock.ns_between(start, clock.ticks())) > patience.as_nanos() {
                return Err(self.end(&format!("did not answer within {patience:?}")));
            }
            wait([self.stream.as_fd()], WAIT);
        }
    }

    fn send(&mut self, message: &Message) -> Result<(), End> {
        self.stream.send(message).map_err(|error| self.end(&error.to_string()))
    }

    /// Says why this goes no further, to both sides.
    fn turn_away(&mut self, reason: &str) -> End {
        // The master may be gone; the other side has the words.
        if self.stream.send(&Message::Refused { reason: reason.to_owned() }).is_ok() {
            self.stream.part(self.options.deadlines.beat * 2);
        }
        self.end(&format!("was turned away: the agent {reason}"))
    }

    fn end(&self, what: &str) -> End {
        format!("master {}: {what}", self.master)
    }
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    Prepared,
    Ready,
}
