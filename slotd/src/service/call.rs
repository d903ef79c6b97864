//! A frame as a call, an answer as a frame.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// A call as it comes.
#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub(super) method: Cow<'a, str>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) oneway: bool,
    #[serde(default)]
    pub(super) upgrade: bool,
}

/// Errors that every Varlink service knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "error", content = "parameters")]
pub(super) enum ServiceError {
    #[serde(rename = "org.varlink.service.InterfaceNotFound")]
    InterfaceNotFound { interface: String },
    #[serde(rename = "org.varlink.service.MethodNotFound")]
    MethodNotFound { method: String },
    #[serde(rename = "org.varlink.service.MethodNotImplemented")]
    MethodNotImplemented { method: String },
    #[serde(rename = "org.varlink.service.InvalidParameter")]
    InvalidParameter { parameter: String },
}

impl Call<'_> {
    /// The interface and the name of the method in it.
    pub(super) fn split(&self) -> (&str, &str) {
        self.method.rsplit_once('.').unwrap_or(("", &self.method))
    }

    /// The parameters as what the method takes.
    pub(super) fn parameters<T: DeserializeOwned>(&self) -> Result<T, ServiceError> {
        let text = self.parameters.map_or("{}", RawValue::get);
        // Serde would take a list as well, field by field.
        if !text.trim_start().starts_with('{') {
            return Err(ServiceError::InvalidParameter { parameter: "parameters".to_owned() });
        }
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json)
            .map_err(|error| ServiceError::InvalidParameter { parameter: culprit(&error) })
    }
}

/// Which parameter is wrong. Serde knows the path of a bad value; a parameter that is missing or
/// unknown it names in its message.
fn culprit(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    if path != "." {
        return path;
    }
    let text = error.inner().to_string();
    let named = text.split('`').nth(1).filter(|_| text.contains(" field "));
    named.map_or_else(|| "parameters".to_owned(), ToOwned::to_owned)
}

#[derive(Serialize)]
struct Answer<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a T>,
}

/// An answer with parameters.
pub(super) fn answer<T: Serialize>(value: &T) -> Vec<u8> {
    encode(&Answer { parameters: Some(value) })
}

/// An answer without any: some clients take no empty object where none is declared.
pub(super) fn done() -> Vec<u8> {
    encode(&Answer::<()> { parameters: None })
}

/// A refusal.
pub(super) fn refusal<T: Serialize>(error: &T) -> Vec<u8> {
    encode(error)
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Plain data with string keys always is JSON.
    serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec())
}

#[cfg(test)]
mod tests {
    use slotd_client::api;

    use super::*;

    fn call(text: &str) -> Call<'_> {
        serde_json::from_str(text).expect("a call")
    }

    #[test]
    fn the_parameter_that_is_wrong_is_named() {
        let named = |parameters: &str| {
            let text = format!(r#"{{"method":"a.B","parameters":{parameters}}}"#);
            match call(&text).parameters::<api::Acquire>() {
                Err(ServiceError::InvalidParameter { parameter }) => parameter,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(named(r#"{"wait_ms":"soon"}"#), "wait_ms");
        assert_eq!(named(r#"{"dye":"3"}"#), "dye");
        assert_eq!(named("[1,2]"), "parameters");
        let park = call(r#"{"method":"a.B"}"#).parameters::<api::Park>();
        let missing = ServiceError::InvalidParameter { parameter: "die".to_owned() };
        assert_eq!(park.expect_err("no die"), missing);
    }

    #[test]
    fn methods_are_split_at_the_last_dot() {
        assert_eq!(call(r#"{"method":"org.x.Y.Z"}"#).split(), ("org.x.Y", "Z"));
        assert_eq!(call(r#"{"method":"Z"}"#).split(), ("", "Z"));
    }

    #[test]
    fn an_empty_answer_has_no_parameters() {
        assert_eq!(done(), b"{}");
    }
}
