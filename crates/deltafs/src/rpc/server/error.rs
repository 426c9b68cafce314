//! Errors of a request as the server answers them.

use super::parts::Redirect;
use crate::error::Error;
use crate::id::DirId;
use crate::rpc::errno::code_of;
use crate::rpc::error::Error as CallError;

/// Why a request is not answered with its reply: a code, and a message or what else belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct RpcError {
    pub(crate) code: u8,
    pub(crate) fields: Vec<u8>,
}

/// The result of a request at the server.
pub(crate) type RpcResult<T = ()> = Result<T, RpcError>;

impl RpcError {
    pub(crate) fn new(errno: &str, message: impl Into<String>) -> RpcError {
        RpcError { code: code_of(errno), fields: message.into().into_bytes() }
    }

    /// The error of a call to another server.
    pub(crate) fn from_peer(error: &CallError) -> RpcError {
        match error {
            CallError::Elsewhere { dir, map } => {
                RpcError::redirect(DirId(*dir), Redirect::Elsewhere(map.to_bytes()))
            }
            error => RpcError::new(error.errno(), error.to_string()),
        }
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_retryable(&self) -> bool {
        self.code == code_of("EAGAIN")
    }

    /// The redirect of a name in the directory `dir`.
    pub(crate) fn redirect(dir: DirId, redirect: Redirect) -> RpcError {
        match redirect {
            Redirect::Retry(message) => RpcError::new("EAGAIN", message),
            Redirect::Elsewhere(map) => {
                let mut fields = dir.0.to_le_bytes().to_vec();
                fields.extend_from_slice(&map);
                RpcError { code: code_of("EREMOTE"), fields }
            }
        }
    }
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        RpcError::new(error.errno(), error.to_string())
    }
}

impl From<keyrack_flodb::Error> for RpcError {
    fn from(error: keyrack_flodb::Error) -> RpcError {
        RpcError::from(Error::from(error))
    }
}
