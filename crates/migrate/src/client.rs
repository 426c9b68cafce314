//! A connection to a server that speaks Redis' protocol.

use crate::error::{Error, Result};
use crate::url::Url;
use keyrack_net::Link;
use std::time::Duration;

use keyrack_wire::resp::{self, Limits, Reply, ReplyParser, Token, Tokens};

/// The largest reply: the largest value and its framing.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 30;

/// A connection with its buffers.
pub(crate) struct Client {
    link: Link,
    parser: ReplyParser,
    name: String,
}

/// A reply on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(Vec<u8>),
    Error(String),
    List(Vec<Value>),
}

impl Client {
    /// Connects and logs in.
    pub(crate) fn connect(url: &Url) -> Result<Client> {
        let options = url.connect_options()?;
        let link = Link::connect(&url.endpoint, &options, REPLY_BYTES_MAX)?;
        let mut client = Client { link, parser: ReplyParser::new(), name: url.name() };
        if let Some(password) = &url.password {
            let reply = match &url.user {
                Some(user) => client.ask(&[b"AUTH", user, password])?,
                None => client.ask(&[b"AUTH", password])?,
            };
            client.expect_no_error(reply)?;
        }
        Ok(client)
    }

    /// The connection, for another protocol on it. Its reads wait at most so long.
    pub(crate) fn into_link(self, read_timeout: Duration) -> Result<Link> {
        let set = self.link.set_read_timeout(Some(read_timeout));
        set.map_err(|cause| Error::io(&self.name, cause))?;
        Ok(self.link)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends a command, which [`Client::flush`] sends.
    pub(crate) fn send(&mut self, args: &[&[u8]]) {
        resp::command(self.link.output(), args);
    }

    /// Bytes that were appended and not sent.
    pub(crate) fn unsent_bytes(&mut self) -> usize {
        self.link.output().len()
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.link.flush().map_err(|cause| Error::io(&self.name, cause))
    }

    /// Waits for the next reply, and lends it.
    pub(crate) fn receive<R>(&mut self, take: impl FnOnce(Reply<'_>) -> R) -> Result<R> {
        loop {
            let mut input = self.link.input();
            let before = input.len();
            let found = self.parser.next(&mut input, &limits());
            let found = found.map_err(|error| Error::server(&self.name, error.to_string()))?;
            if let Some(reply) = found {
                let taken = before - input.len();
                let result = take(reply);
                self.link.consume(taken);
                return Ok(result);
            }
            self.link.fill().map_err(|cause| Error::io(&self.name, cause))?;
        }
    }

    /// Reads what has come without waiting, and lends each whole reply.
    pub(crate) fn receive_ready(&mut self, take: &mut dyn FnMut(Value)) -> Result<()> {
        loop {
            let mut input = self.link.input();
            let before = input.len();
            let found = self.parser.next(&mut input, &limits());
            let found = found.map_err(|error| Error::server(&self.name, error.to_string()))?;
            if let Some(reply) = found {
                let taken = before - input.len();
                take(Value::of(reply));
                self.link.consume(taken);
            } else if !self.link.fill_ready().map_err(|cause| Error::io(&self.name, cause))? {
                return Ok(());
            }
        }
    }

    pub(crate) fn receive_value(&mut self) -> Result<Value> {
        self.receive(Value::of)
    }

    /// Sends a command, and waits for its reply.
    pub(crate) fn ask(&mut self, args: &[&[u8]]) -> Result<Value> {
        self.send(args);
        self.flush()?;
        self.receive_value()
    }

    /// An error reply as an error.
    pub(crate) fn expect_no_error(&self, value: Value) -> Result<Value> {
        match value {
            Value::Error(text) => Err(Error::server(&self.name, text)),
            value => Ok(value),
        }
    }

    pub(crate) fn unexpected<T>(&self, command: &str) -> Result<T> {
        Err(Error::server(&self.name, format!("an unexpected reply to {command}")))
    }
}

fn limits() -> Limits {
    Limits { elements_max: 1 << 24, message_bytes_max: REPLY_BYTES_MAX as u64, ..Limits::default() }
}

impl Value {
    pub(crate) fn of(reply: Reply<'_>) -> Value {
        Value::next(&mut reply.tokens())
    }

    /// The parser has checked the nesting, which it limits.
    fn next(tokens: &mut Tokens<'_>) -> Value {
        let list = |count: usize, tokens: &mut Tokens<'_>| {
            Value::List((0..count).map(|_| Value::next(tokens)).collect())
        };
        match tokens.next() {
            Some(Token::Simple(text) | Token::Bulk(text)) => Value::Text(text.to_vec()),
            Some(Token::Error(text)) => Value::Error(String::from_utf8_lossy(text).into_owned()),
            Some(Token::Integer(number)) => Value::Integer(number),
            Some(Token::Array(count) | Token::Set(count) | Token::Push(count)) => {
                list(count, tokens)
            }
            Some(Token::Map(count)) => list(2 * count, tokens),
            // What else the protocol has does not answer the commands that are asked here.
            _ => Value::Null,
        }
    }

    pub(crate) fn text(&self) -> Option<&[u8]> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}
