//! What the kernels compute, on the processor.

/// Murmur3's finaliser, as in die.h.
pub(crate) fn mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The generator's step, as in persist.cu: x -> x * 1664525 + 1013904223.
const STEP: Jump = Jump { factor: 1_664_525, summand: 1_013_904_223 };

/// Many steps of the generator at once: they make one step with other numbers.
#[derive(Clone, Copy)]
pub(crate) struct Jump {
    factor: u32,
    summand: u32,
}

impl Jump {
    /// `rounds` steps, in as many operations as `rounds` has bits.
    pub(crate) fn new(mut rounds: u32) -> Self {
        let (mut total, mut power) = (Self { factor: 1, summand: 0 }, STEP);
        while rounds > 0 {
            if rounds & 1 == 1 {
                total = total.then(power);
            }
            power = power.then(power);
            rounds >>= 1;
        }
        total
    }

    fn then(self, next: Self) -> Self {
        Self { factor: self.factor.wrapping_mul(next.factor), summand: next.from(self.summand) }
    }

    /// Where the generator is after these steps from `x`.
    pub(crate) fn from(self, x: u32) -> u32 {
        x.wrapping_mul(self.factor).wrapping_add(self.summand)
    }
}

/// Rounds of the parity kernel, as in parity.cu.
const ROUNDS: u32 = 32;

/// Integers: multiplications, shifts, and the upper half of a product.
pub(crate) fn whole(mut x: u32) -> u32 {
    for k in 0..ROUNDS {
        let upper = (u64::from(x) * 0x9e37_79b1) >> 32;
        x = mix(x.wrapping_add(k)) ^ u32::try_from(upper).expect("32 of 64 bits");
    }
    x
}

/// Singles: each operation rounded once, to nearest.
pub(crate) fn single(x: u32) -> f32 {
    let a = f32::from_bits(0x3f80_0000 | x >> 9);
    (0..ROUNDS).fold(a, |s, _| s.mul_add(a, 0.25).sqrt() / a + 0.5)
}

/// Doubles, likewise.
pub(crate) fn double(x: u32) -> f64 {
    let a = 1.0 + f64::from(x) / 4_294_967_296.0;
    (0..ROUNDS).fold(a, |s, _| s.mul_add(a, 0.25).sqrt() / a + 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_comes_where_its_steps_lead() {
        for rounds in [0, 1, 2, 3, 1000, 65_537] {
            let mut x = 12_345_u32;
            for _ in 0..rounds {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            }
            assert_eq!(Jump::new(rounds).from(12_345), x, "{rounds} rounds");
        }
    }

    #[test]
    fn the_chains_stay_finite_and_differ() {
        for x in [0, 1, u32::MAX, 0x8000_0000] {
            assert!(single(x).is_normal() && double(x).is_normal());
        }
        assert_ne!(single(0).to_bits(), single(u32::MAX).to_bits());
        assert_ne!(whole(0), whole(1));
    }
}
