"""The made-up inbox of `art_e.py`: mails, and questions with the mail that answers each.

One mail for each client has the value that a question asks for, beside another value of its kind;
other mails mention the same client.
"""

import random

from art_e_index import Mail, Question

CLIENTS = 288

VALUES = {
    "day": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
    "time": ["07:10", "08:25", "09:40", "11:15", "13:30", "15:05", "16:45", "18:20"],
    "city": ["Lisbon", "Oslo", "Turin", "Gdansk", "Ghent", "Porto", "Graz", "Malmo"],
    "amount": ["1,150", "2,400", "3,800", "4,650", "5,200", "7,900", "9,300", "12,700"],
    "person": ["Ana", "Bruno", "Carla", "Deniz", "Edith", "Farid", "Greta", "Henrik"],
    "months": ["3", "6", "9", "12", "18", "24", "30", "36"],
}
MATTERS = {
    "day": [
        ("Review with {client}", "The review with {client} is on {day} instead of {other}."),
        ("{client}: new date", "{other} did not suit {client}. We hold the review on {day}."),
        ("Review moved", "Please note: {client} asked to move the review from {other} to {day}."),
    ],
    "time": [
        ("Call with {client}", "The call with {client} starts at {time} and ends by {other}."),
        ("{client} on the phone", "We call {client} at {time}. I am out until {other}."),
        ("Call moved", "Our call with {client} was planned for {other}. It starts at {time} now."),
    ],
    "city": [
        ("Visit to {client}", "We meet {client} in {city}. Their office in {other} is closed."),
        ("{client}: where we meet", "Book a train to {city} for {client}, not to {other}."),
        ("Travel", "The people of {client} come from {other} and meet us in {city}."),
    ],
    "amount": [
        ("Invoice of {client}", "{client} sent the invoice: {amount} euros. Last year: {other}."),
        ("{client} invoice", "The offer said {other}, but {client} bills us {amount} euros."),
        ("To be paid", "Please pay {amount} euros to {client}. The first {other} are paid."),
    ],
    "person": [
        ("Contact at {client}", "{other} has left {client}. Write to {person} from now on."),
        ("{client}: who to ask", "At {client} your contact is {person}, who follows {other}."),
        ("New contact", "{person} takes over at {client}. I have told {other}."),
    ],
    "months": [
        ("Contract with {client}", "The contract with {client} runs {months} months, not {other}."),
        ("{client} contract", "{client} wanted {other} months. We signed for {months} months."),
        ("Signed", "Signed with {client} for {months} months. The draft had {other}."),
    ],
}
QUESTIONS = {
    "day": ["On which day is the review with {client}?", "What day did {client} move to?"],
    "time": ["At what time does the call with {client} start?", "When do we call {client}?"],
    "city": ["In which city do we meet {client}?", "Where is the meeting with {client}?"],
    "amount": ["How many euros does {client} bill us?", "What does {client} cost us in euros?"],
    "person": ["Who is our contact at {client}?", "Whom do we write to at {client}?"],
    "months": ["How long, in months, is {client} under contract?", "How many months has {client}?"],
}
OPENINGS = ["Hello,", "Good morning,", "A short note.", "Before I forget:", "As promised:"]
CLOSINGS = ["Best wishes", "See you soon", "Thank you", "Let me know", "Talk later"]
CHATTER = [
    ("Thanks", "Thank you for the notes on {client}. Let us have lunch on {day}."),
    (
        "Slides for {client}",
        "The slides for {client} are done. {person} reads them at {time}.",
    ),
    ("{client} in the news", "Did you see {client} in the paper? {person} has a copy."),
    ("Lunch?", "I am in {city} next {day}. Are you free? {client} can wait."),
    ("Printer", "The printer is out again. {person} is on it, back at {time}."),
]


def made_up_inbox() -> tuple[list[Mail], list[Question]]:
    """Return the inbox and a question on each client; the same ones in every call."""
    chance = random.Random("the inbox of ART·E")
    starts = ("Tal", "Mor", "Bex", "Cor", "Dal", "Fen", "Gil", "Hav", "Jor", "Kel", "Lun", "Nev")
    middles = ("a", "e", "i", "o", "u", "or")
    ends = ("vik", "sa", "dan", "ric", "mos", "tel")
    names = [start + middle + end for start in starts for middle in middles for end in ends]
    mails = []
    asked = []
    for client in chance.sample(names, CLIENTS):
        kind = chance.choice(list(MATTERS))
        answer, other = chance.sample(VALUES[kind], 2)
        told = {"client": client, "other": other, kind: answer}
        mails.append(written(*chance.choice(MATTERS[kind]), told, chance))
        question = chance.choice(QUESTIONS[kind]).format(**told)
        asked.append((question, answer, mails[-1]))
        for subject, body in chance.sample(CHATTER, chance.randrange(3)):
            told = {name: chance.choice(values) for name, values in VALUES.items()}
            mails.append(written(subject, body, {**told, "client": client}, chance))
    chance.shuffle(mails)
    place = {id(mail): number for number, mail in enumerate(mails)}
    return mails, [Question(text, answer, place[id(mail)]) for text, answer, mail in asked]


def written(subject, body, told, chance):
    """Return a mail from a random sender, on a random day of the year."""
    sender = f"{chance.choice(VALUES['person'])} {chance.choice(['Berg', 'Costa', 'Novak'])}"
    date = f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    text = f"{chance.choice(OPENINGS)}\n{body.format(**told)}\n{chance.choice(CLOSINGS)}, {sender}"
    return Mail(sender, date, subject.format(**told), text)
