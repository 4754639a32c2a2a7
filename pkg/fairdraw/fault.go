package fairdraw

import "fmt"

// Code names what is wrong with a draw. Codes never change.
type Code string

// Codes in the order of the checks; a verification reports the first.
const (
	CommitmentInvalid  Code = "COMMITMENT_INVALID"   // not the canonical text of valid terms, or a round that does not follow from them
	AlgorithmOther     Code = "ALGORITHM_OTHER"      // a shuffle instead of a draw, or the reverse
	CommitmentChanged  Code = "COMMITMENT_CHANGED"   // N, the cutoff or another term is not the one that was published, saved, received or signed
	ReceiptForged      Code = "RECEIPT_FORGED"       // not signed by the committed key
	ReceiptOther       Code = "RECEIPT_OTHER"        // signed for other terms or another event
	StatementMissing   Code = "STATEMENT_MISSING"    // the phase or a later member needs one
	StatementInvalid   Code = "STATEMENT_INVALID"    // not the canonical text of a statement
	StatementForged    Code = "STATEMENT_FORGED"     // not signed by the committed key
	RootSecond         Code = "ROOT_SECOND"          // an earlier copy has another root with a valid signature: proof of fraud
	StatementSecond    Code = "STATEMENT_SECOND"     // as ROOT_SECOND, where other members differ
	RootEarly          Code = "ROOT_EARLY"           // before the cutoff
	RootLate           Code = "ROOT_LATE"            // less than a minute before the round that it names
	RoundWrong         Code = "ROUND_WRONG"          // not the round that follows from the terms
	RootUnseen         Code = "ROOT_UNSEEN"          // a copy proves that the root was not public a minute before the round
	EntriesUnsorted    Code = "ENTRIES_UNSORTED"     // out of order, twice, or malformed
	EntryAdded         Code = "ENTRY_ADDED"          // more entries than were signed
	EntryRemoved       Code = "ENTRY_REMOVED"        // fewer
	EntriesChanged     Code = "ENTRIES_CHANGED"      // as many, but others
	ExcludedChanged    Code = "EXCLUDED_CHANGED"     // not the exclusions that were signed
	ReceiptNotIncluded Code = "RECEIPT_NOT_INCLUDED" // neither an entry nor excluded
	VoidLate           Code = "VOID_LATE"            // cancelled when the round could be known, or with a result
	ValueMissing       Code = "VALUE_MISSING"        // a result without the beacon's value
	ValueForged        Code = "VALUE_FORGED"         // the beacon did not sign it for this round
	ValueChanged       Code = "VALUE_CHANGED"        // not the hash of the beacon's signature
	SeedMissing        Code = "SEED_MISSING"         // a result without the seed
	SeedChanged        Code = "SEED_CHANGED"         // not the committed seed
	SeedLate           Code = "SEED_LATE"            // a copy proves that the seed was not revealed before another round decided
	ResultMissing      Code = "RESULT_MISSING"       // the phase needs one
	WinnersNumber      Code = "WINNERS_NUMBER"       // more or fewer winners than N allows
	WinnerChanged      Code = "WINNER_CHANGED"       // another request should have this rank
	ResultOverdue      Code = "RESULT_OVERDUE"       // the announcement has passed without a result
	OrderChanged       Code = "ORDER_CHANGED"        // the shuffle has another order
)

// Fault is the first thing that is wrong with a draw.
type Fault struct {
	Code   Code
	Detail string // one English sentence
}

func (f *Fault) Error() string { return string(f.Code) + ": " + f.Detail }

func fault(code Code, format string, args ...any) *Fault {
	return &Fault{Code: code, Detail: fmt.Sprintf(format, args...)}
}
