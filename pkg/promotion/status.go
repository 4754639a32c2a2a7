package promotion

// Type is the kind of a promotion.
type Type string

// The kinds of promotions.
const (
	FirstCome Type = "FIRST_COME"
	Lottery   Type = "LOTTERY"
)

// Status is the status of a request.
type Status string

// The statuses of a request.
const (
	Received    Status = "RECEIVED"
	Queued      Status = "QUEUED"
	Processing  Status = "PROCESSING"
	Succeeded   Status = "SUCCEEDED"
	Rejected    Status = "REJECTED"
	FailedFinal Status = "FAILED_FINAL"
)

// Final reports whether the request has ended: only a redrive can change the status then.
func (s Status) Final() bool { return s == Succeeded || s == Rejected || s == FailedFinal }

// ResultCode says why a request ended as it did.
type ResultCode string

// The result codes of requests.
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

// ResultCodes returns all codes, in the order in which the operators' summary shows them.
func ResultCodes() []ResultCode {
	return []ResultCode{
		Success, RejectedCapacity, RejectedDuplicate, RejectedLotteryLose, RejectedLate, RejectedWithdrawn, RejectedVoid,
		FailedIngestEnqueue, FailedWorker, FailedValidation, FailedSerde,
	}
}

// FailureClass says whether a failed attempt may succeed when repeated.
type FailureClass string

// The classes of failures.
const (
	Retryable    FailureClass = "RETRYABLE"
	NonRetryable FailureClass = "NON_RETRYABLE"
)

// UIResult is what web pages show of a request's status.
type UIResult string

// The results that web pages show.
const (
	UIPending  UIResult = "PENDING"
	UISuccess  UIResult = "SUCCESS"
	UIRejected UIResult = "REJECTED"
	UIFailed   UIResult = "FAILED"
)

// UIResult converts a status to what web pages show. It is never stored.
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

// UIPhase is what web pages show of a lottery's progress.
type UIPhase string

// The phases of a lottery that web pages show.
const (
	Collecting UIPhase = "COLLECTING"
	Drawing    UIPhase = "DRAWING"
	Announced  UIPhase = "ANNOUNCED"
)

// UIPhase returns what web pages show of the lottery of a request; it is never stored. It is empty
// for a first-come promotion and for a cancelled lottery. A lottery without a result is not
// announced, whatever the time is.
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
