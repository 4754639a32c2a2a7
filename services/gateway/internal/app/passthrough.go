package app

import (
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"urr.guru/services/gateway/internal/docs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// passThroughDetails has, by RPC, what the HTTP rules cannot express: the status of a call that
// creates something, the time-out of a call that waits for a payment provider, and these fields.
// ServedWithoutKafka is set for operators' calls that pause or slow a sale, or shut users out: they
// must work even while Kafka is down. All other mutating calls of operators are refused then, also
// irrevocable ones (closing a promotion, cancelling a campaign), since the operator can pause the
// sale instead. A new threshold or new room settings let in more people or fewer. Only the service
// knows which, so these calls always have it. Irreversible recognises a request that cancels an
// event at once; that is refused too. Personal marks operators' reads of personal data, and Costly
// what reads a database for anybody and each time: lists from any cursor, campaigns, sums and series of
// any event. An event or a promotion is a single read, and the page that a crowd opens: a poll.
var passThroughDetails = map[string]edge.RouteDetails{
	queuev1.QueueAdminService_SetThreshold_FullMethodName:        {ServedWithoutKafka: true},
	queuev1.QueueAdminService_Pause_FullMethodName:               {ServedWithoutKafka: true},
	queuev1.QueueAdminService_Revoke_FullMethodName:              {ServedWithoutKafka: true},
	queuev1.QueueAdminService_Block_FullMethodName:               {ServedWithoutKafka: true},
	ticketv1.EventAdminService_PauseEvent_FullMethodName:         {ServedWithoutKafka: true},
	ticketv1.EventAdminService_CancelEvent_FullMethodName:        {ServedWithoutKafka: true, Irreversible: cancelsForGood},
	vwrv1.VwrAdminService_Activate_FullMethodName:                {ServedWithoutKafka: true},
	ingestv1.IngestAdminService_PausePromotion_FullMethodName:    {ServedWithoutKafka: true},
	rewardv1.RewardAdminService_PauseProvider_FullMethodName:     {ServedWithoutKafka: true},
	paymentv1.PaymentService_Prepare_FullMethodName:              {Status: http.StatusCreated, Timeout: 20 * time.Second, Headers: []edge.Header{docs.RequiredKey}},
	paymentv1.PaymentService_Confirm_FullMethodName:              {Timeout: 20 * time.Second, Headers: []edge.Header{docs.RequiredKey}},
	paymentv1.RefundService_RefundPayment_FullMethodName:         {Status: http.StatusAccepted, Headers: []edge.Header{docs.RequiredKey}},
	paymentv1.RefundAdminService_RefundAnyPayment_FullMethodName: {Status: http.StatusAccepted, Headers: []edge.Header{docs.RequiredKey}},
	paymentv1.RefundAdminService_RefundMembership_FullMethodName: {Status: http.StatusAccepted, Headers: []edge.Header{docs.RequiredKey}},
	paymentv1.RefundAdminService_AssignByHand_FullMethodName:     {Status: http.StatusAccepted, Headers: []edge.Header{docs.RequiredKey}},
	paymentv1.RefundAdminService_HoldRefund_FullMethodName:       {Status: http.StatusAccepted},
	paymentv1.RefundAdminService_RetryRefund_FullMethodName:      {Status: http.StatusAccepted},
	paymentv1.RefundAdminService_ResolveRefund_FullMethodName:    {Status: http.StatusAccepted},
	ticketv1.EventAdminService_CreateEvent_FullMethodName:        {Status: http.StatusCreated, Headers: []edge.Header{docs.IdempotencyKey}},
	ticketv1.CompService_CreateComp_FullMethodName:               {Status: http.StatusCreated, Headers: []edge.Header{docs.RequiredKey}},
	ticketv1.CompService_ListComps_FullMethodName:                {Personal: true},
	ticketv1.TransferService_OfferTicket_FullMethodName:          {Status: http.StatusCreated, Headers: []edge.Header{docs.RequiredKey}},
	ticketv1.MembershipService_BuyMembership_FullMethodName:      {Status: http.StatusCreated},
	ticketv1.MembershipAdminService_CreatePlan_FullMethodName:    {Status: http.StatusCreated, Headers: []edge.Header{docs.RequiredKey}},
	ticketv1.EventAdminService_PutEvent_FullMethodName:           {Headers: []edge.Header{docs.IfMatch}},
	rewardv1.RewardAdminService_CreateCampaign_FullMethodName:    {Status: http.StatusCreated, Headers: []edge.Header{docs.IdempotencyKey}},
	rewardv1.RewardAdminService_CancelCampaign_FullMethodName:    {Status: http.StatusAccepted},
	rewardv1.RewardAdminService_CancelReward_FullMethodName:      {Status: http.StatusAccepted},
	rewardv1.RewardAdminService_RetryRewards_FullMethodName:      {Status: http.StatusAccepted},
	ingestv1.IngestAdminService_CreatePromotion_FullMethodName:   {Status: http.StatusCreated, Headers: []edge.Header{docs.IdempotencyKey}},
	workerv1.WorkerAdminService_RedriveRequests_FullMethodName:   {Timeout: 15 * time.Second},
	kafkav1.DeadLetterService_RedriveTopic_FullMethodName:        {Timeout: handlers.DeadLettersTimeout},

	ticketv1.EventService_ListEvents_FullMethodName:                     {Costly: true},
	ingestv1.IngestService_ListPromotions_FullMethodName:                {Costly: true},
	vwrv1.VwrService_ListShuffles_FullMethodName:                        {Costly: true},
	rewardv1.RewardService_GetCampaign_FullMethodName:                   {Costly: true},
	statsv1.StatsService_GetEventStats_FullMethodName:                   {Costly: true},
	statsv1.StatsService_GetEventSeries_FullMethodName:                  {Costly: true},
	statsv1.StatsService_ListActs_FullMethodName:                        {Personal: true},
	ticketv1.MembershipAdminService_ListMembershipsOf_FullMethodName:    {Personal: true},
	ticketv1.OrderAdminService_SearchOrders_FullMethodName:              {Personal: true},
	ticketv1.OrderAdminService_GetOrder_FullMethodName:                  {Personal: true},
	paymentv1.RefundAdminService_ListRefunds_FullMethodName:             {Personal: true},
	paymentv1.DisputeAdminService_ListDisputes_FullMethodName:           {Personal: true},
	rewardv1.RewardAdminService_ListRewards_FullMethodName:              {Personal: true},
	rewardv1.RewardAdminService_GetReward_FullMethodName:                {Personal: true},
	ingestv1.IngestAdminService_ListRequests_FullMethodName:             {Personal: true},
	ingestv1.IngestService_GetRequest_FullMethodName:                    {Personal: true},
	ingestv1.IngestService_GetTimeline_FullMethodName:                   {Personal: true},
	paymentv1.PaymentService_GetPayment_FullMethodName:                  {Personal: true},
	ticketv1.TicketService_GetMyTicket_FullMethodName:                   {Personal: true},
	workerv1.WorkerAdminService_ListDeadLetters_FullMethodName:          {Personal: true},
	workerv1.WorkerAdminService_ListAdmissionDeadLetters_FullMethodName: {Personal: true},
	kafkav1.DeadLetterService_ListTopicDeadLetters_FullMethodName:       {Personal: true, Timeout: handlers.DeadLettersTimeout},
}

// cancelsForGood reports whether the body of an event's cancellation leaves no time to undo it.
func cancelsForGood(body []byte) bool {
	var in ticketv1.CancelEventRequest
	return protojson.Unmarshal(body, &in) == nil && in.GraceSeconds != nil && in.GetGraceSeconds() == 0
}
