//! The values of merge operators.

use crate::bytes::Bytes;
use crate::error::Failure;
use keyrack_flodb::SetUnion;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySet};

/// A set as a value or operand, for a store that is opened with `merge_operator="set-union"`.
///
/// >>> keyrack.decode_set(keyrack.encode_set([b"red", b"big", b"red"])) == {b"big", b"red"}
/// True
#[pyfunction]
pub(crate) fn encode_set<'py>(
    py: Python<'py>,
    members: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let members = members.try_iter()?.map(|member| member?.extract());
    let members: Vec<Bytes<'_>> = members.collect::<PyResult<_>>()?;
    Ok(PyBytes::new(py, &SetUnion::encode(members.iter().map(|member| &**member))))
}

/// The members of such a value. Other values are refused.
///
/// >>> keyrack.decode_set(b"\x03red")
/// {b'red'}
#[pyfunction]
pub(crate) fn decode_set<'py>(py: Python<'py>, value: Bytes<'py>) -> PyResult<Bound<'py, PySet>> {
    let members = SetUnion::members(&value).ok_or_else(|| {
        Failure::Usage("the value is no set; keyrack.encode_set makes one".to_owned())
    })?;
    PySet::new(py, members.into_iter().map(|member| PyBytes::new(py, member)))
}
