package app

import paymentv1 "urr.guru/proto/gen/urr/payment/v1"

// ConfirmTimeout is the time limit of the slowest request.
var ConfirmTimeout = passThroughDetails[paymentv1.PaymentService_Confirm_FullMethodName].Timeout
