//! Bytes of one connection, in and out, with bounds. No IO.

/// The longest call: a write of 64 KiB to the simulator, in hexadecimal.
pub(super) const MAX_CALL: usize = 160 << 10;
/// What a client that does not read may leave lying here.
pub(super) const MAX_UNREAD: usize = 4 << 20;

/// A client broke a bound, and is to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// What came in and is not taken yet, and what is to go out.
#[derive(Debug, Default)]
pub(super) struct Frames {
    incoming: Vec<u8>,
    /// Bytes of `incoming` that are known to hold no end of a frame.
    searched: usize,
    outgoing: Vec<u8>,
}

impl Frames {
    /// Takes in bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TooMuch> {
        if self.incoming.len() + bytes.len() > MAX_CALL {
            return Err(TooMuch);
        }
        self.incoming.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole frame, without its NUL.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.incoming[self.searched..].iter().position(|byte| *byte == 0);
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.incoming.len();
            return None;
        };
        let rest = self.incoming.split_off(end + 1);
        let mut frame = std::mem::replace(&mut self.incoming, rest);
        frame.pop();
        self.searched = 0;
        Some(frame)
    }

    /// Queues a frame.
    pub(super) fn answer(&mut self, frame: &[u8]) -> Result<(), TooMuch> {
        if self.outgoing.len() + frame.len() + 1 > MAX_UNREAD {
            return Err(TooMuch);
        }
        self.outgoing.extend_from_slice(frame);
        self.outgoing.push(0);
        Ok(())
    }

    /// What is to be written.
    pub(super) fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// So much of it was written.
    pub(super) fn written(&mut self, count: usize) {
        self.outgoing.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            frames in prop::collection::vec(prop::collection::vec(1_u8.., 0..50), 0..8),
            cut in 1_usize..17
        ) {
            let mut bytes = Vec::new();
            for frame in &frames {
                bytes.extend_from_slice(frame);
                bytes.push(0);
            }
            let (mut buffer, mut out) = (Frames::default(), Vec::new());
            for chunk in bytes.chunks(cut) {
                buffer.push(chunk).expect("small");
                while let Some(frame) = buffer.next() {
                    out.push(frame);
                }
            }
            prop_assert_eq!(out, frames);
        }
    }

    #[test]
    fn bounds_hold() {
        let mut frames = Frames::default();
        assert_eq!(frames.push(&vec![b'x'; MAX_CALL]), Ok(()));
        assert_eq!(frames.push(b"x"), Err(TooMuch));
        assert_eq!(frames.answer(&vec![b'x'; MAX_UNREAD - 1]), Ok(()));
        assert_eq!(frames.answer(b""), Err(TooMuch));
        frames.written(MAX_UNREAD);
        assert!(frames.outgoing().is_empty());
    }
}
