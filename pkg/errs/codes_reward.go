package errs

// Errors of reward campaigns.
var (
	ErrCampaignNotFound     = declare(NotFound, "CAMPAIGN_NOT_FOUND", "The campaign does not exist")
	ErrAllocationNotFound   = declare(NotFound, "REWARD_NOT_FOUND", "The reward does not exist")
	ErrNotOpen              = declare(Conflict, "NOT_OPEN", "Taking part is not possible at present")
	ErrDrawsUsedUp          = declare(Conflict, "DRAWS_USED_UP", "All draws are used up")
	ErrRewardNotRetryable   = declare(Conflict, "REWARD_NOT_RETRYABLE", "Only a failed reward can be retried")
	ErrRewardNotCancellable = declare(Conflict, "REWARD_NOT_CANCELLABLE", "A reward that is paid cannot be cancelled")
	ErrRewardNotHeld        = declare(Conflict, "REWARD_NOT_HELD", "Only a reward that is held can be resolved")
)
