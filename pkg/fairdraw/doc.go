// Package fairdraw draws the winners of a lottery, and shuffles a lobby, so that nobody can steer the
// result and anyone can verify it. It computes and verifies; storing and publishing is up to its
// callers.
//
// # Protocol
//
//	opening      Commitment published: terms, keys, hash of the seed, beacon (it is alive) and its round
//	application  Receipt: signed, contains the commitment's hash
//	cutoff       no more entries
//	root         Statement stored once, signed as stored, published at least a minute before the
//	             round: Merkle root and number of the entries, root and number of the exclusions
//	round        the beacon publishes its value
//	result       key = SHA-256(seed ‖ commitment ‖ root ‖ value)
//	             winners = the N smallest HMAC-SHA256(key, request id as 16 bytes)
//	             a shuffle orders all entries by the same HMAC
//	announcement seed, value and result published: Document and the file of the Entries
//
// A draw whose root comes too late for its round is decided by a later round, a fixed delay after
// the first (Commitment.RoundFor); the statement counts the missed rounds. A seed that is not
// revealed within SeedDeadline after the announcement is replaced by zeros, and a later round
// decides (Commitment.ZeroSeedRound). A draw whose beacon never publishes its round is cancelled
// BeaconDeadline after the announcement.
//
// # What each value prevents
//
//   - The commitment: changing N, the cutoff, the algorithm, the keys or the beacon after the first
//     application. It is part of every receipt and of the key, so other terms give another draw.
//   - The seed: everybody but the operator can compute the result only when the seed is revealed, so
//     the result stays secret until the announcement although the value is public. Its hash prevents
//     the choice of another seed.
//   - The root: adding, removing or replacing an entry once the value is known. Leaf and node
//     prefixes (RFC 9162) and the signed count prevent another list with this root.
//   - The beacon: choosing entries or a seed that win. Nobody knows the value before its round, and
//     its signature is unique, so it cannot be chosen either. The hash of its chain covers the key and
//     the times of the rounds, so that a known hash cannot stand for a round that was published long ago.
//   - The list of exclusions: leaving somebody out silently.
//   - A receipt: denying that a request was accepted. Whoever holds one that is neither an entry nor
//     excluded has proof against the operator. Its key is not that of the statement: whoever accepts
//     requests can neither compute a result nor sign a list.
//   - Canonical texts, signed and served verbatim (RFC 8785): two readings of one signed text.
//
// # Who might cheat
//
//   - The operator knows the seed, and signs. A root made after the value is the one way to steer a
//     draw: entries are free to make, and with seed and value known some set of them wins. The time
//     in the statement is the operator's claim. A copy of the statement saved before the round proves
//     it (Options.Earlier), a copy without one from less than a minute before the round refutes it, and
//     two different signed statements prove fraud. So pages and people should keep what they see.
//   - An operator that withholds the seed for a day knows the results of both rounds. It can publish
//     either, but a copy without a seed from after that day refutes the committed seed.
//   - A worker that is stopped, repeated or run twice at once computes the same result from the same
//     stored statement, and does not know the value before it is public.
//   - An entrant can time its application and choose nothing else: request ids are the operator's,
//     and the ranking does not depend on their order.
//   - The beacon's members, if enough of them conspire, know values early; they cannot change them.
//     A beacon that is not a public network (Chain.Network) is as trustworthy as its owner.
//
// # What cannot be proven
//
//   - That the operator entered no requests of its own, or that one person holds one account. The
//     draw treats requests alike; it does not see who is behind them.
//   - That the root was public in time, without a copy saved before the round.
//   - That a request without a receipt was ever made; and whether an exclusion, such as a withdrawal,
//     was the applicant's wish. The reason is signed and public.
//   - A missed round gives the operator one choice between two results, one of them not yet known;
//     so does a seed withheld where nobody saved a copy. Both are visible to everybody.
//   - That a cancelled draw would have gone another way: it can be cancelled only before its round, or
//     for a lost key or beacon, which Verify reports as VOID_LATE.
//   - Without a beacon the operator can compute the result of any set of entries. Such a draw proves
//     only that the published rules were applied to the published entries.
package fairdraw
