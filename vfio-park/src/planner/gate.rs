//! What makes a die reachable.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What makes a die reachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Only bridge windows move; every die keeps decoding. The usual way.
    #[default]
    Window,
    /// Bridge windows move, and the old die's memory decode is turned off, the new one's on.
    Decode,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Window => "window",
            Self::Decode => "decode",
        })
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "window" => Ok(Self::Window),
            "decode" => Ok(Self::Decode),
            _ => Err(format!("`{text}` is no gate: it is `window` or `decode`")),
        }
    }
}
