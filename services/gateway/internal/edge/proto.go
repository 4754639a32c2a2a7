package edge

import (
	"fmt"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// FromService reads the pass-through routes of a service: what its methods' google.api.http rules bind, joined with what their option
// urr.common.v1.edge demands. A method with a rule and no option is an error, since nobody has said who may use it.
func FromService(sd protoreflect.ServiceDescriptor) ([]*Route, error) {
	var routes []*Route
	for i := range sd.Methods().Len() {
		md := sd.Methods().Get(i)
		rule, _ := proto.GetExtension(md.Options(), annotations.E_Http).(*annotations.HttpRule)
		if rule == nil || rule.GetPattern() == nil {
			continue
		}
		if !proto.HasExtension(md.Options(), commonv1.E_Edge) {
			return nil, fmt.Errorf("%s has an HTTP rule but does not say who may use it (option urr.common.v1.edge)", md.FullName())
		}
		need, _ := proto.GetExtension(md.Options(), commonv1.E_Edge).(*commonv1.Edge)
		for n, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			r, err := fromRule(md, binding, need)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				r.ID = fmt.Sprintf("%s.%d", r.ID, n)
			}
			routes = append(routes, r)
		}
	}
	return routes, nil
}

func fromRule(md protoreflect.MethodDescriptor, rule *annotations.HttpRule, need *commonv1.Edge) (*Route, error) {
	r := &Route{
		ID:    string(md.Parent().Name()) + "." + string(md.Name()),
		Who:   Who(need.GetWho()),
		Event: Source(need.GetEvent()),
		RPC:   fmt.Sprintf("/%s/%s", md.Parent().FullName(), md.Name()),
	}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		r.Method, r.Pattern = http.MethodGet, p.Get
	case *annotations.HttpRule_Post:
		r.Method, r.Pattern = http.MethodPost, p.Post
	case *annotations.HttpRule_Put:
		r.Method, r.Pattern = http.MethodPut, p.Put
	case *annotations.HttpRule_Delete:
		r.Method, r.Pattern = http.MethodDelete, p.Delete
	default:
		return nil, fmt.Errorf("%s: HTTP rule of an unknown kind", md.FullName())
	}
	switch rule.GetBody() {
	case "":
	case "*":
		r.Body.JSON = true
	default:
		return nil, fmt.Errorf("%s: the body is %q; strict parsing knows whole bodies only", md.FullName(), rule.GetBody())
	}
	r.Status, r.Timeout = successStatus(md), slow[md.FullName()]
	return r, nil
}

// created are the pass-through methods that answer 201: each call makes a thing that did not exist. Prepare and Create say so in the API.
var created = map[protoreflect.FullName]bool{
	"urr.payment.v1.PaymentService.Prepare":       true,
	"urr.ticket.v1.EventAdminService.CreateEvent": true,
}

// slow are the methods that take longer than DefaultTimeout: a payment provider may need 10 s to answer.
var slow = map[protoreflect.FullName]time.Duration{
	"urr.payment.v1.PaymentService.Confirm": 20 * time.Second,
}

func successStatus(md protoreflect.MethodDescriptor) int {
	switch {
	case created[md.FullName()]:
		return http.StatusCreated
	case md.Output().FullName() == (&emptypb.Empty{}).ProtoReflect().Descriptor().FullName():
		return http.StatusNoContent
	default:
		return http.StatusOK
	}
}
