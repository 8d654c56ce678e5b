//! Which transaction comes next: the mixes, and the deck that a client draws from.

use super::input::TpccTransaction;
use super::random::Random;

/// Shares of the transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// All five: of 100 transactions 45 New-Order, 43 Payment and four each of Order-Status, Delivery and Stock-Level.
    /// These are the minimums of clause 5.2.3, with everything above them given to New-Order.
    Full,
    /// New-Order, Payment and Order-Status alike, each drawn for itself (AnKer §6.2 names no weights).
    Paper,
}

impl Mix {
    /// All.
    pub const ALL: [Mix; 2] = [Mix::Full, Mix::Paper];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Full => "full",
            Mix::Paper => "paper",
        }
    }

    /// The transactions in it.
    pub fn kinds(self) -> &'static [TpccTransaction] {
        match self {
            Mix::Full => &TpccTransaction::ALL,
            Mix::Paper => &TpccTransaction::PAPER,
        }
    }
}

/// Cards of the full mix by kind; clause 5.2.4.2 allows a deck, which keeps the shares exact over any longer time.
const CARDS: [(TpccTransaction, usize); 5] = [
    (TpccTransaction::NewOrder, 45),
    (TpccTransaction::Payment, 43),
    (TpccTransaction::OrderStatus, 4),
    (TpccTransaction::Delivery, 4),
    (TpccTransaction::StockLevel, 4),
];

/// The deck from which a client draws its transactions.
pub(super) struct Deck {
    /// Empty in mixes whose transactions are drawn for themselves.
    cards: Vec<TpccTransaction>,
    next: usize,
}

impl Deck {
    /// A deck that is shuffled at the first draw.
    pub(super) fn new(mix: Mix) -> Deck {
        let cards: Vec<TpccTransaction> = match mix {
            Mix::Full => CARDS.iter().flat_map(|&(kind, count)| std::iter::repeat_n(kind, count)).collect(),
            Mix::Paper => Vec::new(),
        };
        Deck { next: cards.len(), cards }
    }

    /// The next transaction.
    pub(super) fn draw(&mut self, random: &mut Random) -> TpccTransaction {
        if self.cards.is_empty() {
            return TpccTransaction::PAPER[random.uniform(0, 2) as usize];
        }
        if self.next == self.cards.len() {
            random.shuffle(&mut self.cards);
            self.next = 0;
        }
        self.next += 1;
        self.cards[self.next - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(mix: Mix, draws: usize) -> [usize; 5] {
        let (mut deck, mut random) = (Deck::new(mix), Random::new(1, 0));
        let mut counts = [0; 5];
        (0..draws).for_each(|_| counts[deck.draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn a_deck_keeps_the_shares_exactly() {
        assert_eq!(counts(Mix::Full, 1000), [450, 430, 40, 40, 40]);
    }

    #[test]
    fn a_deck_is_shuffled_anew() {
        let (mut deck, mut random) = (Deck::new(Mix::Full), Random::new(1, 0));
        let mut round = || (0..100).map(|_| deck.draw(&mut random)).collect::<Vec<_>>();
        assert_ne!(round(), round());
    }

    #[test]
    fn the_papers_mix_has_three_transactions_alike() {
        let counts = counts(Mix::Paper, 9000);
        assert!(counts[..3].iter().all(|&count| (2850..3150).contains(&count)), "{counts:?}");
        assert_eq!(counts[3..], [0, 0]);
    }
}
