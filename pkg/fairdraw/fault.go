package fairdraw

import "fmt"

// FaultCode says what is wrong with a draw. The codes never change.
type FaultCode string

// The codes in the order of the checks. A verification reports only the first fault that it finds.
const (
	CommitmentInvalid  FaultCode = "COMMITMENT_INVALID"   // not the canonical text of valid terms, or a round that does not follow from them
	AlgorithmOther     FaultCode = "ALGORITHM_OTHER"      // a shuffle instead of a draw, or the reverse
	CommitmentChanged  FaultCode = "COMMITMENT_CHANGED"   // N, the cutoff or another term is not the one that was published, saved, received or signed
	ReceiptForged      FaultCode = "RECEIPT_FORGED"       // the committed key did not sign the receipt
	ReceiptOther       FaultCode = "RECEIPT_OTHER"        // a receipt that was signed for other terms or another event
	StatementMissing   FaultCode = "STATEMENT_MISSING"    // the phase, or another field of the document, requires a statement
	StatementInvalid   FaultCode = "STATEMENT_INVALID"    // not the canonical JSON of a statement
	StatementForged    FaultCode = "STATEMENT_FORGED"     // the committed key did not sign it
	RootSecond         FaultCode = "ROOT_SECOND"          // an earlier copy has another root with a valid signature: proof of fraud
	StatementSecond    FaultCode = "STATEMENT_SECOND"     // like ROOT_SECOND, but the root is the same and another field differs
	RootEarly          FaultCode = "ROOT_EARLY"           // the root is older than the cutoff
	RootLate           FaultCode = "ROOT_LATE"            // the root was made less than a minute before the round in the statement
	RoundWrong         FaultCode = "ROUND_WRONG"          // the terms lead to another round
	RootUnseen         FaultCode = "ROOT_UNSEEN"          // a copy proves that the root was not public a minute before the round
	EntriesUnsorted    FaultCode = "ENTRIES_UNSORTED"     // entries out of order, twice, or malformed
	EntryAdded         FaultCode = "ENTRY_ADDED"          // there are more entries than were signed
	EntryRemoved       FaultCode = "ENTRY_REMOVED"        // there are fewer entries than were signed
	EntriesChanged     FaultCode = "ENTRIES_CHANGED"      // as many entries as signed, but with different ids
	ExcludedChanged    FaultCode = "EXCLUDED_CHANGED"     // the list of exclusions is not the signed one
	ReceiptNotIncluded FaultCode = "RECEIPT_NOT_INCLUDED" // the request of a receipt is neither an entry nor excluded
	VoidLate           FaultCode = "VOID_LATE"            // cancelled when the round could be known, or with a result
	ValueMissing       FaultCode = "VALUE_MISSING"        // there is a result, but no beacon value
	ValueForged        FaultCode = "VALUE_FORGED"         // the beacon did not sign the value
	ValueChanged       FaultCode = "VALUE_CHANGED"        // value is not the hash of the signature
	SeedMissing        FaultCode = "SEED_MISSING"         // there is a result, but no seed
	SeedChanged        FaultCode = "SEED_CHANGED"         // the seed is not the committed one
	SeedLate           FaultCode = "SEED_LATE"            // a copy proves that the seed was not revealed before another round decided
	ResultMissing      FaultCode = "RESULT_MISSING"       // the phase requires a result
	WinnersNumber      FaultCode = "WINNERS_NUMBER"       // more or fewer winners than N allows
	WinnerChanged      FaultCode = "WINNER_CHANGED"       // another request should have this rank
	ResultOverdue      FaultCode = "RESULT_OVERDUE"       // the announcement has passed without a result
	OrderChanged       FaultCode = "ORDER_CHANGED"        // the shuffle leads to another order
)

// Fault is the first thing that a verification found wrong with a draw.
type Fault struct {
	Code   FaultCode
	Detail string // one English sentence
}

func (f *Fault) Error() string { return string(f.Code) + ": " + f.Detail }

func fault(code FaultCode, format string, args ...any) *Fault {
	return &Fault{Code: code, Detail: fmt.Sprintf(format, args...)}
}
