package stripe

import (
	_ "embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource)) //nolint:gochecknoglobals // a constant

// The buyer's choices on the page.
const (
	Pay     = "pay"
	Decline = "decline"
	Close   = "close" // pay, then close the page
	Back    = "back"
)

type pageData struct {
	Name, Order, Amount, Currency, Message, Back string
	Open                                         bool
}

func (s *Server) showPage(w http.ResponseWriter, r *http.Request) { s.writePage(w, r, "") }

// choose carries out the buyer's choice. After paying, the buyer is sent to success_url. Going back
// leaves the session open, and leads to cancel_url (docs.stripe.com/api/checkout/sessions/create).
func (s *Server) choose(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	choice := r.PostFormValue("choice")
	s.mu.Lock()
	x := s.find(r.PathValue("id"))
	location, message := "", ""
	switch {
	case x == nil || x.status != open: // the page shows why nothing can be chosen
	case choice == Pay:
		s.authorize(x)
		location = x.successURL
	case choice == Close:
		s.authorize(x)
		message = "You have paid. Close this page."
	case choice == Decline:
		s.decline(x)
		message = "Your card was declined. Try another one."
	default:
		location = x.cancelURL
	}
	s.mu.Unlock()
	if location == "" {
		s.writePage(w, r, message)
		return
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, location, http.StatusSeeOther)
}

// writePage shows the session: buttons while it is open, otherwise the reason why there are none.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, message string) {
	s.mu.Lock()
	x := s.find(r.PathValue("id"))
	if x == nil {
		s.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	data := pageData{
		Name: x.name, Order: x.order, Amount: strconv.FormatInt(x.amount, 10), Currency: strings.ToUpper(x.currency), Message: message, Back: x.cancelURL, Open: x.status == open,
	}
	if message == "" && x.status != open {
		data.Message = "This page has expired."
		if x.status == complete {
			data.Message = "You have paid already."
		}
	}
	s.mu.Unlock()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	_ = pageTemplate.Execute(w, data) // an error means that the client has left
}
