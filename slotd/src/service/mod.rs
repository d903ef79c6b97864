//! The Varlink service: one level-triggered epoll thread for all clients.
//!
//! | module | what it is |
//! |---|---|
//! | `frame` | bytes of one connection, in and out, with bounds |
//! | `conn` | one connection: its socket and its frames |
//! | `call` | a frame as a call, an answer as a frame |
//! | `dispatch` | which call goes where |
//! | `simulated` | calls of the simulator's interface |
//! | `event_loop` | descriptors, time, and the core between them |
//! | `listen` | the socket |

mod call;
mod conn;
mod dispatch;
mod event_loop;
mod frame;
mod listen;
mod simulated;

pub use self::{
    event_loop::{End, EventLoop, Parts},
    listen::{ListenError, Listener},
};
