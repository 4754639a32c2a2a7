package promotion

// Type is the kind of a promotion.
type Type string

// The kinds.
const (
	FirstCome Type = "FIRST_COME"
	Lottery   Type = "LOTTERY"
)

// Status of a request.
type Status string

// The statuses.
const (
	Received    Status = "RECEIVED"
	Queued      Status = "QUEUED"
	Processing  Status = "PROCESSING"
	Succeeded   Status = "SUCCEEDED"
	Rejected    Status = "REJECTED"
	FailedFinal Status = "FAILED_FINAL"
)

// Final reports whether nothing but a redrive changes the status any more.
func (s Status) Final() bool { return s == Succeeded || s == Rejected || s == FailedFinal }

// ResultCode says why a request ended as it did.
type ResultCode string

// The codes.
const (
	Success             ResultCode = "SUCCESS"
	RejectedCapacity    ResultCode = "REJECTED_CAPACITY"
	RejectedDuplicate   ResultCode = "REJECTED_DUPLICATE"
	RejectedLotteryLose ResultCode = "REJECTED_LOTTERY_LOSE"
	RejectedLate        ResultCode = "REJECTED_LATE"
	RejectedWithdrawn   ResultCode = "REJECTED_WITHDRAWN"
	RejectedVoid        ResultCode = "REJECTED_VOID"
	FailedIngestEnqueue ResultCode = "FAILED_INGEST_ENQUEUE"
	FailedWorker        ResultCode = "FAILED_WORKER"
	FailedValidation    ResultCode = "FAILED_VALIDATION"
	FailedSerde         ResultCode = "FAILED_SERDE"
)

// ResultCodes are all codes, in the order of the operators' summary.
func ResultCodes() []ResultCode {
	return []ResultCode{
		Success, RejectedCapacity, RejectedDuplicate, RejectedLotteryLose, RejectedLate, RejectedWithdrawn, RejectedVoid,
		FailedIngestEnqueue, FailedWorker, FailedValidation, FailedSerde,
	}
}

// FailureClass says whether a failure may go away by itself.
type FailureClass string

// The classes.
const (
	Retryable    FailureClass = "RETRYABLE"
	NonRetryable FailureClass = "NON_RETRYABLE"
)

// UIResult is what pages show of a status.
type UIResult string

// The results.
const (
	UIPending  UIResult = "PENDING"
	UISuccess  UIResult = "SUCCESS"
	UIRejected UIResult = "REJECTED"
	UIFailed   UIResult = "FAILED"
)

// UIResult is computed, never stored.
func (s Status) UIResult() UIResult {
	switch s {
	case Succeeded:
		return UISuccess
	case Rejected:
		return UIRejected
	case FailedFinal:
		return UIFailed
	default:
		return UIPending
	}
}

// UIPhase is what pages show of a lottery.
type UIPhase string

// The phases.
const (
	Collecting UIPhase = "COLLECTING"
	Drawing    UIPhase = "DRAWING"
	Announced  UIPhase = "ANNOUNCED"
)

// UIPhase is computed, never stored; empty unless it is a lottery, and for a cancelled one. A lottery
// without its result is not announced, whatever the clock says.
func (r *Request) UIPhase(now int64) UIPhase {
	switch {
	case r.EventType != Lottery, r.ResultCode == RejectedVoid:
		return ""
	case now < r.LotteryCutoffAt:
		return Collecting
	case now < r.AnnouncedAt, !r.Status.Final():
		return Drawing
	default:
		return Announced
	}
}
