//! Random numbers. A crate would bring its own promise about which numbers a seed gives, and
//! the same seed must give the same bytes for as long as this package lives; twenty lines of
//! splitmix64 (Steele, Lea and Flood, OOPSLA 2014) keep that promise here.

/// A splitmix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

/// The splitmix64 output function: a bijection that mixes every bit into every other.
pub(crate) fn mix_bits(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// One number from several, for facts two ranks must agree on without talking to each other.
pub(crate) fn hash_parts(seed: u64, parts: &[u64]) -> u64 {
    parts
        .iter()
        .fold(mix_bits(seed ^ 0x9e37_79b9_7f4a_7c15), |h, &p| {
            mix_bits(h.wrapping_add(p).wrapping_add(0x9e37_79b9_7f4a_7c15))
        })
}

impl Rng {
    /// A generator of numbers that depend on `seed` alone.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix_bits(self.0)
    }

    /// A number below `n`, or 0 where `n` is 0. The bias of the multiplication is below 2^-32
    /// for the small `n` of this module.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_bits()) * n as u128) >> 64) as usize
    }

    /// A number in `0.0 .. 1.0`.
    pub(crate) fn next_unit(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`.
    pub(crate) fn draw_chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.next_unit() < p
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_first_number_is_the_published_one() {
        // The reference implementation's first output for seed 1234567.
        assert_eq!(Rng::new(1_234_567).next_bits(), 6_457_827_717_110_365_317);
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut rng = Rng::new(1);
        let seen: Vec<usize> = (0..200).map(|_| rng.below(3)).collect();
        assert!((0..3).all(|n| seen.contains(&n)) && seen.iter().all(|&n| n < 3));
        assert_eq!(rng.below(0), 0);
    }
}
