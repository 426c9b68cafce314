//! The master's side: a team of agents, taken through the steps of a run together.
//!
//! A step is sent to all, then all answers are awaited at once, with signs of life both ways.
//! Before a run has begun one agent that fails ends it for all, because a load with an agent less
//! is another load. Once it has begun, what an agent loses is named and the others go on.
//!
//! While the master measures itself, its team must be looked after by another thread:
//! [`Team::collect`] sends the beats.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_net::Endpoint;

use super::deadlines::Deadlines;
use super::error::Error;
use super::message::{Message, NAME, Prepared, VERSION};
use super::message_stream::{MessageStream, wait};
use super::outcome::Outcome;
use super::token::{self, Side};

/// How long a turn of waiting lasts.
const WAIT: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Agent {
    name: String,
    stream: MessageStream,
    /// Requests that it said were answered.
    ops: u64,
    /// Why it is no longer there.
    lost: Option<String>,
}

/// What an agent did not bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The agent.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What the agents have brought.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Each agent's address with what it counted, in their order.
    pub outcomes: Vec<(String, Outcome)>,
    /// Those that brought nothing.
    pub lost: Vec<Lost>,
}

/// Agents that do what a master says.
#[derive(Debug)]
pub struct Team {
    agents: Vec<Agent>,
    pub(super) deadlines: Deadlines,
    clock: Clock,
}

impl Team {
    /// Connects to agents and finds out who they are.
    ///
    /// # Errors
    /// The first agent that is not there, does not know the token, is busy, or speaks another
    /// version; an agent beyond loopback without a token; an agent that is named twice.
    pub fn enlist(
        endpoints: &[Endpoint],
        secret: Option<&str>,
        deadlines: Deadlines,
    ) -> Result<Team, Error> {
        let mut team = Team { agents: Vec::new(), deadlines, clock: Clock::vdso() };
        for (index, endpoint) in endpoints.iter().enumerate() {
            if endpoints[..index].contains(endpoint) {
                return Err(Error::Usage(format!("agent {endpoint} is named twice")));
            }
            let places = endpoint.resolve()?;
            if secret.is_none() && !places.iter().all(Endpoint::is_loopback) {
                return Err(Error::Usage(format!(
                    "agent {endpoint} is on another machine: give it and this master a token \
                     (--agent-token FILE)"
                )));
            }
            let name = endpoint.to_string();
            let agent = |reason: String| Error::Agent { name: name.clone(), reason };
            let stream = MessageStream::connect(endpoint, deadlines.connect)
                .map_err(|cause| agent(format!("cannot be reached: {cause}")))?;
            team.agents.push(Agent { name: name.clone(), stream, ops: 0, lost: None });
            team.greet(secret)?;
        }
        Ok(team)
    }

    /// Exchanges names and proofs with the agent that came last.
    fn greet(&mut self, secret: Option<&str>) -> Result<(), Error> {
        let last = self.agents.len() - 1;
        let greeting = self.ask(last, None)?;
        let Message::Greeting { name, version, nonce: theirs, wants_token } = greeting else {
            return Err(self.fail(last, format!("began with {}", greeting.name())));
        };
        if name != NAME {
            return Err(self.fail(last, format!("is no agent but {name:?}")));
        }
        if version != VERSION {
            let reason = format!("speaks version {version}, and this master version {VERSION}");
            return Err(self.fail(last, reason));
        }
        match (secret.is_some(), wants_token) {
            (false, true) => return Err(self.fail(last, "wants a token (--agent-token FILE)")),
            (true, false) => return Err(self.fail(last, "was started without a token")),
            _ => {}
        }
        let nonce = token::nonce()
            .map_err(|cause| Error::Machine { action: "get random bytes".to_owned(), cause })?;
        let proof = secret.map(|secret| token::proof(secret, Side::Master, &theirs, &nonce));
        let hello = Message::Hello { version: VERSION, nonce: nonce.clone(), proof };
        let welcome = self.ask(last, Some(&hello))?;
        let Message::Welcome { proof } = welcome else {
            return Err(self.fail(last, format!("answered with {}", welcome.name())));
        };
        let expected = secret.map(|secret| token::proof(secret, Side::Agent, &nonce, &theirs));
        let is_known = match (&expected, &proof) {
            (None, _) => true,
            (Some(expected), Some(proof)) => token::is_equal(expected, proof),
            (Some(_), None) => false,
        };
        if !is_known {
            return Err(self.fail(last, "does not know the token"));
        }
        self.agents[last].stream.trust();
        Ok(())
    }

    /// The addresses of the agents, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|agent| agent.name.as_str())
    }

    /// Requests that the agents say were answered since the last start.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.agents.iter().map(|agent| agent.ops).sum()
    }

    /// Sends the settings, and hears what each agent will be.
    ///
    /// # Errors
    /// The first agent that cannot follow them, or is not there any more.
    pub fn prepare(&mut self, settings: &serde_json::Value) -> Result<Vec<Prepared>, Error> {
        for index in 0..self.agents.len() {
            let agent = u32::try_from(index + 1).unwrap_or(u32::MAX);
            self.send(index, &Message::Prepare { agent, settings: settings.clone() })?;
        }
        let answer = |message| match message {
            Message::Prepared(prepared) => Ok(prepared),
            other => Err(other),
        };
        self.gather(self.deadlines.answer, &|| false, &answer)
    }

    /// Lets all connect, load and warm up, each for its rate.
    ///
    /// # Errors
    /// The first agent that fails; [`Error::Interrupted`] when `stop` says so. The others are told
    /// to stop.
    ///
    /// # Panics
    /// Unless there is a rate for each agent.
    pub fn ready(&mut self, rates: &[Option<f64>], stop: &dyn Fn() -> bool) -> Result<(), Error> {
        assert_eq!(rates.len(), self.agents.len(), "each agent has a rate");
        for (index, rate_per_s) in rates.iter().copied().enumerate() {
            self.send(index, &Message::Ready { rate_per_s })?;
        }
        let answer = |message| match message {
            Message::IsReady => Ok(()),
            other => Err(other),
        };
        self.gather(self.deadlines.ready, stop, &answer).map(|_| ())
    }

    /// Starts all, so long from now.
    ///
    /// # Errors
    /// An agent that is gone.
    pub fn start(&mut self, start_in: Duration) -> Result<(), Error> {
        let in_ms = u64::try_from(start_in.as_millis()).unwrap_or(u64::MAX);
        for index in 0..self.agents.len() {
            self.agents[index].ops = 0;
            self.send(index, &Message::Start { in_ms })?;
        }
        Ok(())
    }

    /// Waits for the outcomes of a run that lasts so long from its start. When `stop` says so, all
    /// are told to end at once with what they have. `watch` is told how many requests were
    /// answered, every now and then.
    pub fn collect(
        &mut self,
        length: Duration,
        stop: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(u64),
    ) -> Collected {
        let mut outcomes: Vec<Option<Outcome>> = self.agents.iter().map(|_| None).collect();
        let mut patience = length.saturating_add(self.deadlines.finish);
        let mut start = self.clock.ticks();
        let mut is_stopping = false;
        while self.agents.iter().zip(&outcomes).any(|(a, o)| a.lost.is_none() && o.is_none()) {
            if !is_stopping && stop() {
                is_stopping = true;
                (start, patience) = (self.clock.ticks(), self.deadlines.finish);
                self.broadcast(&Message::Abort);
            }
            let is_late = self.is_over(start, patience);
            for (agent, outcome) in self.agents.iter_mut().zip(&mut outcomes) {
                if agent.lost.is_some() {
                    continue;
                }
                match agent.look(&self.deadlines) {
                    Ok(Some(Message::Done { outcome: brought })) if outcome.is_none() => {
                        *outcome = Some(*brought);
                    }
                    Ok(Some(Message::Failed { reason } | Message::Refused { reason })) => {
                        agent.lost = Some(reason);
                    }
                    Ok(Some(other)) => agent.lost = Some(format!("sent {}", other.name())),
                    Ok(None) if is_late && outcome.is_none() => {
                        agent.lost = Some(format!("has no result {patience:?} after the start"));
                    }
                    Ok(None) => {}
                    Err(error) => agent.lost = Some(error.to_string()),
                }
            }
            watch(self.ops());
            self.wait();
        }
        let mut collected = Collected { outcomes: Vec::new(), lost: Vec::new() };
        for (agent, outcome) in self.agents.iter().zip(outcomes) {
            let name = agent.name.clone();
            match (outcome, &agent.lost) {
                (Some(outcome), _) => collected.outcomes.push((name, outcome)),
                (None, reason) => {
                    let reason = reason.clone().unwrap_or_default();
                    collected.lost.push(Lost { name, reason });
                }
            }
        }
        collected
    }

    /// Lets the agents go, and waits a little until they have.
    pub fn dismiss(mut self) {
        self.broadcast(&Message::Bye);
        let patience = self.deadlines.beat * 2;
        for agent in self.agents.iter_mut().filter(|agent| agent.lost.is_none()) {
            agent.stream.part(patience);
        }
    }

    /// Waits for one answer of each agent, in their order.
    fn gather<T>(
        &mut self,
        patience: Duration,
        stop: &dyn Fn() -> bool,
        answer: &dyn Fn(Message) -> Result<T, Message>,
    ) -> Result<Vec<T>, Error> {
        let start = self.clock.ticks();
        let mut answers: Vec<Option<T>> = self.agents.iter().map(|_| None).collect();
        while let Some(waiting) = answers.iter().position(Option::is_none) {
            if stop() {
                self.broadcast(&Message::Abort);
                return Err(Error::Interrupted);
            }
            if self.is_over(start, patience) {
                return Err(self.fail(waiting, format!("has not answered within {patience:?}")));
            }
            for (index, slot) in answers.iter_mut().enumerate() {
                let deadlines = self.deadlines;
                match self.agents[index].look(&deadlines).map_err(|error| error.to_string()) {
                    Ok(None) => {}
                    Ok(Some(Message::Failed { reason } | Message::Refused { reason })) => {
                        return Err(self.fail(index, reason));
                    }
                    Ok(Some(message)) => match answer(message) {
                        Ok(value) if slot.is_none() => *slot = Some(value),
                        Ok(_) => return Err(self.fail(index, "answered twice")),
                        Err(other) => {
                            return Err(self.fail(index, format!("sent {}", other.name())));
                        }
                    },
                    Err(reason) => return Err(self.fail(index, reason)),
                }
            }
            self.wait();
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Sends something to one agent and waits for its answer.
    fn ask(&mut self, index: usize, message: Option<&Message>) -> Result<Message, Error> {
        if let Some(message) = message {
            self.send(index, message)?;
        }
        let start = self.clock.ticks();
        loop {
            let deadlines = self.deadlines;
            match self.agents[index].look(&deadlines) {
                Ok(Some(Message::Failed { reason } | Message::Refused { reason })) => {
                    return Err(self.fail(index, reason));
                }
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => return Err(self.fail(index, error.to_string())),
            }
            if self.is_over(start, deadlines.answer) {
                let reason = format!("has not answered within {:?}", deadlines.answer);
                return Err(self.fail(index, reason));
            }
            wait([self.agents[index].stream.as_fd()], WAIT);
        }
    }

    fn send(&mut self, index: usize, message: &Message) -> Result<(), Error> {
        self.agents[index].stream.send(message).map_err(|e| self.fail(index, e.to_string()))
    }

    /// One agent has failed before anything was measured: the others are told to stop.
    fn fail(&mut self, index: usize, reason: impl Into<String>) -> Error {
        let reason = reason.into();
        self.agents[index].lost = Some(reason.clone());
        self.broadcast(&Message::Abort);
        Error::Agent { name: self.agents[index].name.clone(), reason }
    }

    /// Sends a message to all agents that are there. The next step finds those that are not.
    fn broadcast(&mut self, message: &Message) {
        for agent in self.agents.iter_mut().filter(|agent| agent.lost.is_none()) {
            let _ = agent.stream.send(message);
        }
    }

    fn is_over(&self, start: u64, patience: Duration) -> bool {
        u128::from(self.clock.ns_between(start, self.clock.ticks())) > patience.as_nanos()
    }

    /// Waits until an agent has said something, but not long.
    fn wait(&self) {
        let alive = self.agents.iter().filter(|agent| agent.lost.is_none());
        wait(alive.map(|agent| agent.stream.as_fd()), WAIT);
    }
}

impl Agent {
    /// What the agent has just said, if anything but a beat. Beats are sent.
    fn look(&mut self, deadlines: &Deadlines) -> io::Result<Option<Message>> {
        self.stream.beat(deadlines.beat, 0)?;
        match self.stream.receive(Duration::ZERO)? {
            Some(Message::Beat { ops }) => {
                self.ops = ops;
                Ok(None)
            }
            None if self.stream.silence() > deadlines.silence => {
                let words = format!("said nothing for {:?}", deadlines.silence);
                Err(io::Error::new(io::ErrorKind::TimedOut, words))
            }
            message => Ok(message),
        }
    }
}
