package stripe_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/payment/codestest"
	"urr.guru/services/payment/internal/stripe"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// refuser is the fake, which answers captures, refunds and, if all is set, look-ups with an error.
type refuser struct {
	*shop

	client *stripe.Client
	status int
	body   string
	all    bool
}

func newRefuser(t *testing.T) *refuser {
	t.Helper()
	s := &refuser{shop: newShop(t)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.all && !strings.HasSuffix(r.URL.Path, "/capture") && r.URL.Path != "/v1/refunds" {
			s.fake.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(s.status)
		_, _ = w.Write([]byte(s.body))
	}))
	t.Cleanup(server.Close)
	s.client = s.shop.client(server.URL, apiKey)
	return s
}

// The golden file shows what becomes of each call that Stripe answers with each code that the library
// knows. No text of an answer gets into an error.
func TestCodes(t *testing.T) {
	t.Parallel()
	s := newRefuser(t)
	open, charged := s.authorized(), s.captured()
	var table codestest.Table
	add := func(name string, status int, body string) (charge payment.Outcome) {
		s.status, s.body, s.all = status, body, false
		out, chargeErr := s.client.Charge(t.Context(), open, payment.Outcome{})
		answer, refundErr := s.client.Refund(t.Context(), refundCall(charged, s.shop, "1", 1))
		s.all = true
		found, lookUpErr := s.client.Ask(t.Context(), open)
		_, reportErr := s.client.AskRefunds(t.Context(), charged)
		require.Error(t, reportErr, name)
		for _, err := range []error{chargeErr, refundErr, lookUpErr, reportErr} {
			if err != nil {
				require.NotContains(t, err.Error(), "Kim", name)
			}
		}
		table.Add(name, codestest.Charge(out, chargeErr), codestest.Refund(answer, refundErr), codestest.LookUp(found, lookUpErr))
		return out
	}
	answer := func(kind, fields string) string {
		return fmt.Sprintf(`{"error": {"type": %q, "message": "Mr Kim has"%s}}`, kind, fields)
	}
	for _, status := range []int{400, 401, 403, 404, 409, 429, 500, 503} {
		add(fmt.Sprintf("%d, no error", status), status, `{"detail": "Mr Kim"}`)
		add(fmt.Sprintf("%d, HTML", status), status, "<html>Mr Kim")
	}
	for _, status := range []int{400, 401, 403, 429} {
		add(fmt.Sprintf("%d, no code", status), status, answer("invalid_request_error", ""))
	}
	add("a sentence", 400, answer("invalid_request_error", `, "code": "Mr Kim", "param": "Mr Kim", "decline_code": "Mr Kim"`))
	add("param amount", 400, answer("invalid_request_error", `, "param": "amount"`))
	for _, kind := range constants(t, "ErrorType") {
		add("type "+kind, 400, answer(kind, ""))
	}
	for _, code := range constants(t, "ErrorCode") {
		add(code, 400, answer("invalid_request_error", fmt.Sprintf(`, "code": %q`, code)))
	}
	for _, code := range constants(t, "DeclineCode") {
		out := add("declined "+code, 402, answer("card_error", fmt.Sprintf(`, "code": "card_declined", "decline_code": %q`, code)))
		require.Equal(t, code, out.DeclineCode)
	}
	table.Compare(t, "testdata/codes.txt", *update)
	s.all = false
	require.Zero(t, s.fake.Order(charged.OrderID).Refunded)
	require.Equal(t, payment.Authorized, s.asks(open, payment.Authorized).State)
}

// constants returns the values of the library's constants of a type, from its source.
func constants(t *testing.T, kind string) (values []string) {
	t.Helper()
	library := runtime.FuncForPC(reflect.ValueOf(api.NewBackendsWithConfig).Pointer())
	source, _ := library.FileLine(library.Entry())
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(filepath.Dir(source), "error.go"), nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name, isNamed := spec.Type.(*ast.Ident)
		value, isLiteral := spec.Values[0].(*ast.BasicLit)
		if isNamed && isLiteral && name.Name == kind {
			text, err := strconv.Unquote(value.Value)
			require.NoError(t, err)
			values = append(values, text)
		}
		return true
	})
	require.NotEmpty(t, values, kind)
	slices.Sort(values)
	return values
}
